// A table whose keys are admitted to their rows.

#include "ops/core/operations/clear_rows.h"
#include "ops/core/stores/dram_store.h"
#include "tests/ops/core/support/filter_testing.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/temp_folder.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::admission_gate_test {

using Row = std::vector<float>;

TEST(FilteredTable, MakesARowInTheStepThatAdmitsItsKey) {
  const TableOptions options = Dynamic(2);
  const auto table = OpenFiltered(options, SgdRule(), Counter(3));
  const Row initial = InitialRow(options, -7);
  for (int step = 1; step < 3; ++step) {
    EXPECT_EQ(Lookup(table.get(), {-7}), Row({0, 0}));
    ASSERT_TRUE(IsOk(Subtract(table.get(), {-7}, {1, 2})));
    EXPECT_EQ(NumRowsOf(*table), 0);
    EXPECT_EQ(StatsOf(*table).waiting_keys, 1);
    EXPECT_EQ(StatsOf(*table).filtered_ids, step);
  }
  ASSERT_TRUE(IsOk(Subtract(table.get(), {-7}, {1, 2})));
  EXPECT_EQ(Lookup(table.get(), {-7}), Row({initial[0] - 1, initial[1] - 2}));
  EXPECT_EQ(StatsOf(*table).waiting_keys, 0);
  EXPECT_EQ(StatsOf(*table).filtered_ids, 2);
  EXPECT_EQ(StatsOf(*table).created_rows, 1);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {-7}, {1, 2})));
  EXPECT_EQ(Lookup(table.get(), {-7}), Row({initial[0] - 1 - 1, initial[1] - 2 - 2}));
}

TEST(FilteredTable, CountsAStepOnceHoweverOftenItHasTheKey) {
  const auto table = OpenFiltered(Dynamic(1), SgdRule(), Counter(3));
  const std::vector<int64_t> ids(9, 5);
  ASSERT_TRUE(IsOk(Subtract(table.get(), ids, Row(9, 1))));
  EXPECT_EQ(Remembered(*table), (std::map<int64_t, uint32_t>{{5, 1}}));
}

TEST(FilteredTable, CountsEachOccurrenceIfItsFilterDoes) {
  const auto table = OpenFiltered(Dynamic(1), SgdRule(), Counter(3, true));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {5, 6, 5}, {1, 1, 1})));
  EXPECT_EQ(Remembered(*table), (std::map<int64_t, uint32_t>{{5, 2}, {6, 1}}));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {7, 5, 7, 7, 6}, {1, 1, 1, 1, 1})));
  EXPECT_EQ(Remembered(*table), (std::map<int64_t, uint32_t>{{6, 2}}));
  EXPECT_EQ(StatsOf(*table).filtered_ids, 3);
  EXPECT_EQ(NumRowsOf(*table), 2);
}

TEST(FilteredTable, CountsNoStepThatIsRefused) {
  const auto table = OpenFiltered(Dynamic(1), SgdRule(), Counter(2));
  EXPECT_FALSE(Apply(table.get(), {1, 2, 3}, {5}, {1}).ok());  // sgd takes one number
  EXPECT_EQ(StatsOf(*table).waiting_keys, 0);
}

TEST(FilteredTable, CountsNoLookup) {
  const auto table = OpenFiltered(Dynamic(1), SgdRule(), Counter(2));
  for (int i = 0; i < 5; ++i) (void)Lookup(table.get(), {1, 2, 3});
  EXPECT_EQ(StatsOf(*table).waiting_keys, 0);
}

TEST(FilteredTable, OfFrequencyOneReadsTheDefaultValueBeforeTheFirstGradient) {
  TableOptions options = Dynamic(1);
  FilterOptions filter = Counter(1);
  filter.default_value = 0.25f;
  const auto table = OpenFiltered(options, SgdRule(), filter);
  EXPECT_EQ(Lookup(table.get(), {1}), Row({0.25f}));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1}, {0})));
  EXPECT_EQ(Lookup(table.get(), {1, 2}), Row({InitialRow(options, 1)[0], 0.25f}));
  filter.reads_initial_rows = true;
  ASSERT_TRUE(IsOk(SetFilter(table.get(), filter)));
  EXPECT_EQ(Lookup(table.get(), {2}), InitialRow(options, 2));
}

TEST(FilteredTable, ForgetsAKeyWhoseRowIsImported) {
  const auto table = OpenFiltered(Dynamic(1), SgdRule(), Counter(3));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2}, {1, 1})));
  const int64_t key = 1;
  const float row = 8;
  ASSERT_TRUE(IsOk(ImportRows(table.get(), &key, 1, &row, 1, Inline())));
  EXPECT_EQ(Remembered(*table), (std::map<int64_t, uint32_t>{{2, 1}}));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1}, {1})));
  EXPECT_EQ(Lookup(table.get(), {1}), Row({7}));
}

TEST(FilteredTable, ForgetsAllWithItsRows) {
  const auto table = OpenFiltered(Dynamic(1), SgdRule(), Counter(2));
  for (const std::vector<int64_t>& ids : {std::vector<int64_t>{1, 2}, {1, 3}}) {
    ASSERT_TRUE(IsOk(Subtract(table.get(), ids, {1, 1})));
  }
  EXPECT_EQ(NumRowsOf(*table), 1);
  ASSERT_TRUE(IsOk(ClearRows(table.get(), Inline())));
  EXPECT_EQ(StatsOf(*table).waiting_keys, 0);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2}, {1, 1})));
  EXPECT_EQ(NumRowsOf(*table), 0);
}

TEST(FilteredTable, KeepsWaitingKeysWhenItsRuleChanges) {
  const auto table = OpenFiltered(Dynamic(1), SgdRule(), Counter(2));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1}, {1})));
  ASSERT_TRUE(IsOk(SetRule(table.get(), AdagradRule(0.1), Inline())));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1}, {1})));
  EXPECT_EQ(NumRowsOf(*table), 1);
}

TEST(FilteredTable, KnowsARowInALowerTier) {
  const auto table = OpenFiltered(Dynamic(1), SgdRule(), Counter(2));
  ASSERT_TRUE(IsOk(AddLowerTier(table.get(), std::make_unique<DramStore>(4))));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(IsOk(Subtract(table.get(), {1}, {1})));
  const Row row = Lookup(table.get(), {1});
  const int64_t key = 1;
  ASSERT_TRUE(IsOk(Demote(table.get(), &key, 1)));
  EXPECT_EQ(Lookup(table.get(), {1, 2}), Row({row[0], 0}));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2}, {1, 1})));
  EXPECT_EQ(Lookup(table.get(), {1, 2}), Row({row[0] - 1, 0}));
  EXPECT_EQ(Remembered(*table), (std::map<int64_t, uint32_t>{{2, 1}}));
  EXPECT_EQ(StatsOf(*table).created_rows, 1);
}

TEST(FilteredTable, RefusesAWalkThatAChangeHasOvertaken) {
  const auto table = OpenFiltered(Dynamic(1), SgdRule(), Counter(2));
  ASSERT_TRUE(IsOk(Subtract(table.get(), RandomIds(500, 0, 1 << 30, 1), Row(500, 1))));
  FilterEntries piece;
  ASSERT_TRUE(IsOk(ExportFilter(*table, 0, 10, &piece)));
  ASSERT_GE(piece.next_cursor, 0);
  EXPECT_EQ(Remembered(*table, 3).size(), 500u);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1}, {1})));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "must not change while it is exported",
                        ExportFilter(*table, piece.next_cursor, 10, &piece)));
}

TEST(FilteredTable, IsADynamicOne) {
  const auto table = Open(Options(10, 1));
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "must be that of a dynamic table",
                        SetFilter(table.get(), Counter(2))));
  const int64_t key = 1;
  const uint32_t count = 1;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "must have an admission filter",
                        ImportFilter(table.get(), &key, &count, 1)));
  EXPECT_EQ(Remembered(*table).size(), 0u);
}

struct Trained {
  std::vector<uint32_t> outputs;
  Exported rows;
  std::map<int64_t, uint32_t> remembered;
  int64_t filtered_ids;
  bool operator==(const Trained& other) const {
    return outputs == other.outputs && rows == other.rows && remembered == other.remembered &&
           filtered_ids == other.filtered_ids;
  }
};

// Of Adam, so that rows move in steps without a gradient too.
Trained Train(const TableOptions& options, const FilterOptions& filter, Executor* executor) {
  const auto table = OpenFiltered(options, AdamRule("adam", 0.9, 0.5), filter);
  Trained run;
  for (uint64_t step = 1; step <= 12; ++step) {
    std::vector<int64_t> ids = RandomIds(20000, 0, 20000, step);
    const std::vector<int64_t> frequent = RandomIds(5000, -500, 500, step + 100);
    ids.insert(ids.end(), frequent.begin(), frequent.end());
    for (const uint32_t bits : Bits(Lookup(table.get(), ids, executor))) {
      run.outputs.push_back(bits);
    }
    const Row grads = RandomFloats(static_cast<int64_t>(ids.size()) * 2, step);
    EXPECT_TRUE(IsOk(Apply(table.get(), {0.01f, 0.01f}, ids, grads, executor)));
  }
  run.rows = ExportAll(*table);
  run.remembered = Remembered(*table);
  run.filtered_ids = StatsOf(*table).filtered_ids;
  return run;
}

class EachFilter : public ::testing::TestWithParam<FilterOptions> {};

TEST_P(EachFilter, GivesTheSameBitsWithAnyThreadsOverAnyTiers) {
  const Trained one = Train(Dynamic(2), GetParam(), Inline());
  EXPECT_GT(one.filtered_ids, 1000);
  EXPECT_GT(one.rows.size(), 100u);
  for (const auto& [threads, piece] : {std::pair{2, 1}, {4, 3}}) {
    ThreadExecutor executor(threads, piece);
    EXPECT_TRUE(Train(Dynamic(2), GetParam(), &executor) == one) << threads << " threads";
  }
  for (const int64_t first_bytes : {1, 100000, 400000}) {
    const TempFolder folder;
    TableOptions options = Dynamic(2);
    options.storage = {{"ssdhash"}, {first_bytes, int64_t{1} << 30}, folder / "ssd", "LRU"};
    ThreadExecutor executor(2);
    EXPECT_TRUE(Train(options, GetParam(), &executor) == one) << first_bytes << " bytes";
  }
}

TEST_P(EachFilter, GoesOnFromItsEntries) {
  const auto stopped = OpenFiltered(Dynamic(1), SgdRule(), GetParam());
  const auto step = [](EmbeddingTable* table, uint64_t seed) {
    const std::vector<int64_t> ids = RandomIds(800, 0, 1000, seed);
    ASSERT_TRUE(IsOk(Subtract(table, ids, RandomFloats(800, seed))));
  };
  for (uint64_t seed = 1; seed <= 5; ++seed) step(stopped.get(), seed);
  const auto loaded = OpenFiltered(Dynamic(1), SgdRule(), GetParam());
  for (const auto& [key, row] : ExportAll(*stopped)) {
    ASSERT_TRUE(IsOk(ImportRows(loaded.get(), &key, 1, row.record.data(), 1, Inline())));
  }
  for (const auto& [key, count] : Remembered(*stopped)) {
    ASSERT_TRUE(IsOk(ImportFilter(loaded.get(), &key, &count, 1)));
  }
  for (uint64_t seed = 6; seed <= 10; ++seed) {
    step(stopped.get(), seed);
    step(loaded.get(), seed);
  }
  EXPECT_EQ(ExportAll(*loaded), ExportAll(*stopped));
  EXPECT_EQ(Remembered(*loaded), Remembered(*stopped));
}

INSTANTIATE_TEST_SUITE_P(Filters, EachFilter,
                         ::testing::Values(Counter(3), Counter(5, true), Probability(0.3),
                                           // Too small for the keys that come.
                                           Cbf(3, 8000, 0.3, 8), Cbf(4, 500, 0.01, 64),
                                           Cbf(7, 8000, 0.3, 8, true)),
                         [](const auto& param) {
                           return param.param.filter + "_" + std::to_string(param.index);
                         });

}  // namespace keras_sparse::admission_gate_test
