
#include "ops/core/operations/clear_rows.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/temp_folder.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::export_import_test {

std::unique_ptr<EmbeddingTable> Trained(const TableOptions& options, int64_t num_ids = 3000) {
  auto table = OpenWithRule(options, AdagradRule(0.1));
  const auto ids = RandomIds(num_ids, 0, 1999, 1);
  EXPECT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, RandomFloats(num_ids * options.output_dim, 2))));
  return table;
}

// Copies all of a table into another, in pieces.
void Copy(const EmbeddingTable& from, EmbeddingTable* to, int64_t max_rows) {
  ExportedRows rows;
  for (int64_t cursor = 0; cursor >= 0; cursor = rows.next_cursor) {
    ASSERT_TRUE(IsOk(ExportRows(from, cursor, max_rows, &rows)));
    ASSERT_TRUE(IsOk(ImportAll(to, rows.keys, rows.records)));
  }
}

TEST(Export, GivesEachRowOnceInPiecesOfAnySize) {
  for (const TableOptions& options : {Dynamic(2), Options(2000, 2)}) {
    const auto table = Trained(options);
    const Exported all = ExportAll(*table, std::numeric_limits<int64_t>::max());
    EXPECT_EQ(static_cast<int64_t>(all.size()), NumRowsOf(*table));
    for (const int64_t max_rows : {-1, 0, 1, 100, 5000})
      EXPECT_EQ(ExportAll(*table, max_rows), all);
  }
}

TEST(Export, GivesNothingOfAnEmptyTable) {
  ExportedRows rows;
  ASSERT_TRUE(IsOk(ExportRows(*Open(Dynamic(2)), 0, 10, &rows)));
  EXPECT_TRUE(rows.keys.empty());
  EXPECT_TRUE(rows.records.empty());
  EXPECT_EQ(rows.next_cursor, -1);
}

TEST(Export, HoldsEveryExtremeKey) {
  const auto table = OpenWithRule(Dynamic(1), SgdRule());
  ASSERT_TRUE(IsOk(Subtract(table.get(), ExtremeKeys(), {1, 2, 3, 4, 5})));
  const Exported all = ExportAll(*table, 1);
  for (const int64_t key : ExtremeKeys()) EXPECT_EQ(all.count(key), 1u);
}

TEST(Export, RefusesToGoOnOnceTheTableHasChanged) {
  for (const TableOptions& options : {Dynamic(2), Options(2000, 2)}) {
    const auto table = Trained(options);
    const int64_t key = 3;
    const std::vector<std::function<Status()>> changes = {
        [&] { return Apply(table.get(), {0.1f}, {3}, {1, 1}); },
        [&] { return ImportRows(table.get(), &key, 1, std::vector<float>(2).data(), 2, Inline()); },
        [&] { return ClearRows(table.get(), Inline()); },
        [&] { return SetRule(table.get(), AdagradRule(0.1), Inline()); }};
    for (const auto& change : changes) {
      ASSERT_TRUE(
          IsOk(Apply(table.get(), {0.1f}, RandomIds(3000, 0, 1999, 3), std::vector<float>(6000))));
      ExportedRows rows;
      ASSERT_TRUE(IsOk(ExportRows(*table, 0, 10, &rows)));
      ASSERT_GT(rows.next_cursor, 0);
      ASSERT_TRUE(IsOk(change()));
      EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "must not change while it is exported",
                            ExportRows(*table, rows.next_cursor, 10, &rows)));
    }
  }
}

TEST(Export, GoesOnAcrossLookupsAndRefusedChanges) {
  const auto table = Trained(Options(2000, 2));
  ExportedRows rows;
  ASSERT_TRUE(IsOk(ExportRows(*table, 0, 10, &rows)));
  (void)Lookup(table.get(), {1, 2});
  EXPECT_FALSE(Apply(table.get(), {0.1f}, {2000}, {1, 1}).ok());
  const int64_t bad_key = -1;
  EXPECT_FALSE(
      ImportRows(table.get(), &bad_key, 1, std::vector<float>(2).data(), 2, Inline()).ok());
  EXPECT_TRUE(IsOk(ExportRows(*table, rows.next_cursor, 10, &rows)));
}

TEST(Export, GivesAnEmptyPieceOnceAllIsOut) {
  for (const TableOptions& options : {Dynamic(2), Options(3, 2)}) {
    const auto table = OpenWithRule(options, AdagradRule(0));
    ExportedRows rows;
    EXPECT_TRUE(IsOk(ExportRows(*table, -1, 10, &rows)));
    EXPECT_TRUE(rows.keys.empty());
    EXPECT_EQ(rows.record_floats, 4);
    EXPECT_EQ(rows.next_cursor, -1);
  }
}

TEST(Export, RefusesOrEndsAtACursorItNeverGave) {
  for (const TableOptions& options : {Dynamic(2), Options(2000, 2)}) {
    const auto table = Open(options);  // version 0, so that small cursors are of this version
    ExportedRows rows;
    for (const int64_t cursor :
         {int64_t{5000}, int64_t{1} << 40, int64_t{1} << 44, int64_t{9} << 44, int64_t{-1},
          std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
      if (!ExportRows(*table, cursor, 10, &rows).ok()) continue;
      EXPECT_TRUE(rows.keys.empty());
      EXPECT_EQ(rows.next_cursor, -1);
    }
  }
}

TEST(ReadRows, GivesWhatLookupsAndExportsGiveAndChangesNothing) {
  const TempFolder folder;
  TableOptions tiered = Dynamic(3);
  tiered.storage = {{"ssdhash"}, {20000, int64_t{1} << 30}, folder / "rows", "LRU"};
  for (const TableOptions& options : {Dynamic(3), tiered, Options(2000, 3)}) {
    const auto table = Trained(options);
    const Exported before = ExportAll(*table);
    const TableStats stats = StatsOf(*table);
    std::vector<int64_t> keys = RandomIds(3000, 0, 1999, 3);
    if (options.is_dynamic()) {
      for (const int64_t key : ExtremeKeys()) keys.push_back(key);
    }
    const auto n = static_cast<int64_t>(keys.size());
    RowsOfKeys rows;
    ThreadExecutor executor(3);
    ASSERT_TRUE(IsOk(ReadRows(*table, keys.data(), n, &executor, &rows)));
    ASSERT_EQ(rows.record_floats, 6);
    std::vector<bool> have;
    ASSERT_TRUE(IsOk(HaveRows(*table, keys, &have)));
    const std::vector<float> looked_up = Lookup(table.get(), keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto first = rows.records.begin() + static_cast<int64_t>(6 * i);
      const std::vector<float> record(first, first + 6);
      const auto exported = before.find(keys[i]);
      ASSERT_EQ(rows.exist[i] != 0, exported != before.end()) << keys[i];
      ASSERT_EQ(have[i], exported != before.end()) << keys[i];
      const auto row = looked_up.begin() + static_cast<int64_t>(3 * i);
      ASSERT_TRUE(std::equal(row, row + 3, record.begin())) << keys[i];
      if (exported != before.end()) {
        ASSERT_EQ(record, exported->second.record) << keys[i];
      } else {
        ASSERT_EQ(std::vector<float>(first + 3, first + 6), std::vector<float>(3, 0.1f));
      }
    }
    EXPECT_EQ(ExportAll(*table), before);
    EXPECT_EQ(StatsOf(*table).lookups, stats.lookups + n) << "the lookup alone";
  }
}

TEST(ReadRows, RefusesIdsOutsideAStaticTableUnlessTheyReadAsZeros) {
  for (const bool is_zero : {false, true}) {
    TableOptions options = Options(5, 2);
    options.out_of_range_is_zero = is_zero;
    const auto table = OpenWithRule(options, AdagradRule(0.1));
    const std::vector<int64_t> ids = {4, 5, -1};
    std::vector<bool> have;
    ASSERT_TRUE(IsOk(HaveRows(*table, ids, &have)));
    EXPECT_EQ(have, (std::vector<bool>{true, false, false}));
    RowsOfKeys rows;
    const Status status = ReadRows(*table, ids.data(), 3, Inline(), &rows);
    if (!is_zero) {
      EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "Received: ids[1] = 5", status));
      continue;
    }
    ASSERT_TRUE(IsOk(status));
    EXPECT_EQ(std::vector<float>(rows.records.begin() + 4, rows.records.end()),
              std::vector<float>(8));
    EXPECT_EQ(rows.exist, (std::vector<char>{1, 0, 0}));
  }
}

TEST(Import, BringsBackWhatExportGaveAndTrainsOnAlike) {
  for (const TableOptions& options : {Dynamic(3), Options(2000, 3)}) {
    const auto table = Trained(options);
    const auto copy = OpenWithRule(options, AdagradRule(0.1));
    Copy(*table, copy.get(), 100);
    EXPECT_EQ(ExportAll(*copy), ExportAll(*table));
    const auto ids = RandomIds(500, 0, 1999, 7);
    ASSERT_TRUE(IsOk(ApplyToEach({table.get(), copy.get()}, {0.1f}, ids, RandomFloats(1500, 8))));
    EXPECT_EQ(ExportAll(*copy), ExportAll(*table));
  }
}

TEST(Import, OfRowsAloneKeepsSlotsAndStartsThoseOfNewRows) {
  const auto table = OpenWithRule(Dynamic(2), AdagradRule(0.5));
  ASSERT_TRUE(IsOk(Apply(table.get(), {0}, {4}, {1, 2})));
  const std::vector<int64_t> keys = {4, 9};
  const std::vector<float> rows = {10, 20, 30, 40};
  ASSERT_TRUE(IsOk(ImportAll(table.get(), keys, rows)));
  EXPECT_EQ(ExportAll(*table).at(4).record, (std::vector<float>{10, 20, 1.5f, 4.5f}));
  EXPECT_EQ(ExportAll(*table).at(9).record, (std::vector<float>{30, 40, 0.5f, 0.5f}));
}

TEST(Import, KeepsTheLastRowOfARepeatedKey) {
  const auto table = Open(Dynamic(1));
  const std::vector<int64_t> keys = {4, 5, 4};
  const std::vector<float> rows = {1, 2, 3};
  ASSERT_TRUE(IsOk(ImportAll(table.get(), keys, rows)));
  EXPECT_EQ(Lookup(table.get(), {4, 5}), (std::vector<float>{3, 2}));
  EXPECT_EQ(NumRowsOf(*table), 2);
}

TEST(Import, RefusesAnotherWidthAndChangesNothing) {
  const auto table = Trained(Dynamic(2));
  const Exported before = ExportAll(*table);
  const std::vector<int64_t> keys = {1};
  const std::vector<float> records(10, 9.0f);
  for (const int64_t width : {0, 1, 3, 5, -2}) {
    EXPECT_TRUE(
        FailsWith(StatusCode::kInvalidArgument,
                  "must be 2 wide (rows) or 4 (rows and slots of rule 'adagrad'). Received: " +
                      std::to_string(width),
                  ImportRows(table.get(), keys.data(), 1, records.data(), width, Inline())));
  }
  EXPECT_EQ(ExportAll(*table), before);
}

TEST(Import, RefusesKeysOutsideAStaticTableAndChangesNothing) {
  TableOptions options = Options(2000, 2);
  options.out_of_range_is_zero = true;  // that is for lookups
  const auto table = Trained(options);
  const Exported before = ExportAll(*table);
  const std::vector<float> records(8, 9.0f);
  for (const int64_t bad : {int64_t{-1}, int64_t{2000}}) {
    const std::vector<int64_t> keys = {1, bad};
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "keys[1] = " + std::to_string(bad),
                          ImportRows(table.get(), keys.data(), 2, records.data(), 2, Inline())));
  }
  EXPECT_EQ(ExportAll(*table), before);
}

TEST(Import, TakesNothing) {
  const auto table = Open(Dynamic(2));
  EXPECT_TRUE(IsOk(ImportRows(table.get(), nullptr, 0, nullptr, 2, Inline())));
  EXPECT_EQ(NumRowsOf(*table), 0);
}

TEST(Import, FillsATableFromManyThreads) {
  const auto table = OpenWithRule(Dynamic(2), SgdRule());
  const auto keys = RandomIds(50000, 0, 1 << 30, 5);
  ThreadExecutor executor(4);
  const auto records = RandomFloats(100000, 6);
  ASSERT_TRUE(IsOk(ImportAll(table.get(), keys, records, &executor)));
  for (size_t i = 0; i < keys.size(); i += 501) {
    EXPECT_EQ(Lookup(table.get(), {keys[i]})[1], records[2 * i + 1]);
  }
}

}  // namespace keras_sparse::export_import_test
