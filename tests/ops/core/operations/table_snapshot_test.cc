#include "ops/core/operations/table_snapshot.h"

#include "ops/core/operations/clear_rows.h"
#include "tests/ops/core/support/drift_rule.h"
#include "tests/ops/core/support/snapshot_testing.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::table_snapshot_test {

using Keys = std::set<int64_t>;

// A table over an SSD whose first tier keeps nothing, or all.
TableOptions OverSsd(const std::string& path, int64_t dim, int64_t first_bytes = 1) {
  TableOptions options = Dynamic(dim);
  options.storage = {{"ssdhash"}, {first_bytes, int64_t{1} << 30}, path, "LRU"};
  return options;
}

std::vector<float> Floats(const std::string& record) {
  std::vector<float> values(record.size() / 4);
  std::copy_n(record.data(), record.size(), reinterpret_cast<char*>(values.data()));
  return values;
}

Status ExportFrom(EmbeddingTable* table, int64_t cursor, RawRows* rows,
                  const RawSelection& selection = {}) {
  return TableSnapshot(table).Export(selection, cursor, 1, rows);
}

TEST(TableSnapshot, GivesRecordsAsTheyLieInTheTiers) {
  const TempFolder folder;
  const auto table = OpenWithRule(OverSsd(folder / "rows", 2, 1 << 20), DriftRule());
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2}, {1024, 1024, 2048, 2048})));
  const int64_t key = 1;
  ASSERT_TRUE(IsOk(Demote(table.get(), &key, 1)));
  PassSteps(table.get(), {1}, 3);
  const StoredRecords raw = ExportRaw(table.get());
  ASSERT_EQ(KeysOf(raw), (Keys{1, 2}));
  const Exported exported = ExportAll(*table);
  for (const auto& [id, record] : raw) {
    ASSERT_EQ(record.size(), 20u);  // row, velocity, step
    // As the one update left it: the moves since then are pending.
    const auto gradient = static_cast<float>(1024 * id);
    const std::vector<float> initial = InitialRow(Dynamic(2), id);
    const std::vector<float> values = Floats(record);
    EXPECT_EQ(values[0], initial[0] - gradient);
    EXPECT_EQ(values[2], gradient);
    EXPECT_EQ(exported.at(id).record[2], gradient / 8);
    uint32_t step = 0;
    std::copy_n(record.data() + 16, 4, reinterpret_cast<char*>(&step));
    EXPECT_EQ(step, 1u);
  }
}

TEST(TableSnapshot, GivesEachRowOnceInPiecesOfAnySize) {
  const TempFolder folder;
  for (const int64_t first_bytes : {1, 40000, 1 << 20}) {
    const auto table = OpenWithRule(OverSsd(folder / std::to_string(first_bytes), 3, first_bytes),
                                    AdagradRule(0.1));
    std::vector<int64_t> ids = Range(0, 3000);
    ids.insert(ids.end(), {INT64_MIN, INT64_MAX});
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, RandomFloats(3002 * 3, 1))));
    }
    const StoredRecords raw = ExportRaw(table.get());
    EXPECT_EQ(KeysOf(raw), Keys(ids.begin(), ids.end()));
    for (const auto& [key, row] : ExportAll(*table)) {
      ASSERT_EQ(Bits(Floats(raw.at(key))), Bits(row.record));
    }
    for (const int64_t max_rows : {int64_t{0}, int64_t{1}, INT64_MAX}) {
      EXPECT_EQ(ExportRaw(table.get(), {}, max_rows), raw);
    }
  }
}

TEST(TableSnapshot, CountsEverythingAsChangedUntilItIsSaved) {
  for (const int64_t input_dim : {int64_t{-1}, int64_t{10}}) {
    const auto table = OpenWithRule(Options(input_dim, 1), SgdRule());
    const TableSnapshot snapshot(table.get());
    const auto expect_everything = [&] {
      RawRows rows;
      EXPECT_TRUE(snapshot.is_everything_changed());
      EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition,
                            "'items' must have been saved before its changes can be told",
                            ExportFrom(table.get(), 0, &rows, kChanged)));
      EXPECT_TRUE(snapshot.ErasedKeys().empty());
    };
    const auto expect_changed = [&](const Keys& keys) {
      EXPECT_FALSE(snapshot.is_everything_changed());
      EXPECT_EQ(KeysOf(ExportRaw(table.get(), kChanged)), keys);
    };
    ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2}, {1, 1})));
    expect_everything();
    ASSERT_TRUE(IsOk(MarkSaved(table.get())));
    expect_changed({});
    ASSERT_TRUE(IsOk(Subtract(table.get(), {2, 3}, {1, 1})));
    expect_changed({2, 3});
    ASSERT_TRUE(IsOk(SetRule(table.get(), AdagradRule(0.1), Inline())));
    expect_everything();
    ASSERT_TRUE(IsOk(Apply(table.get(), {1}, {4}, {1})));
    ASSERT_TRUE(IsOk(MarkSaved(table.get())));
    expect_changed({});
    ASSERT_TRUE(IsOk(ClearRows(table.get(), Inline())));
    expect_everything();
    ASSERT_TRUE(IsOk(MarkSaved(table.get())));
    expect_changed({});
    ASSERT_TRUE(IsOk(Apply(table.get(), {1}, {5}, {1})));
    expect_changed({5});
  }
}

TEST(TableSnapshot, CountsEverythingAsChangedOnceStepsAreForgotten) {
  // Wide rows and many steps, so that the history of the rule outgrows a hundredth of the rows.
  const auto table = OpenWithRule(Dynamic(4), AdamRule());
  ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f, 0.1f}, {1}, {1, 1, 1, 1})));
  ASSERT_TRUE(IsOk(MarkSaved(table.get())));
  const TableSnapshot snapshot(table.get());
  int64_t steps = 0;
  for (; steps < 200000 && !snapshot.is_everything_changed(); ++steps) {
    const float rate = 1.0f / static_cast<float>(steps + 1);
    ASSERT_TRUE(IsOk(Apply(table.get(), {rate, rate}, {}, {})));
  }
  EXPECT_TRUE(snapshot.is_everything_changed()) << steps;
}

TEST(TableSnapshot, LeavesItsVersionToLookupsAndWalks) {
  const TempFolder folder;
  const auto table = OpenWithRule(OverSsd(folder / "rows", 1), SgdRule());
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 3}, {1, 1, 1})));
  ASSERT_TRUE(IsOk(MarkSaved(table.get())));
  const TableSnapshot snapshot(table.get());
  const int64_t version = snapshot.version();
  std::vector<LinkedFile> files;
  (void)Lookup(table.get(), {1, 2, 77});
  (void)ExportAll(*table);
  (void)ExportRaw(table.get());
  (void)StatsOf(*table);
  ASSERT_TRUE(IsOk(snapshot.LinkFiles(folder / "x-", &files)));
  EXPECT_EQ(snapshot.version(), version);
  EXPECT_TRUE(ExportRaw(table.get(), kChanged).empty());
  ASSERT_TRUE(IsOk(Subtract(table.get(), {}, {})));
  EXPECT_GT(snapshot.version(), version);
}

TEST(TableSnapshot, MarksNoTableIfOneHasChanged) {
  const auto first = OpenWithRule(Dynamic(1), SgdRule());
  TableOptions options = Dynamic(1);
  options.name = "users";
  const auto second = OpenWithRule(options, SgdRule());
  const std::vector<EmbeddingTable*> tables = {first.get(), second.get()};
  const auto versions = [&] {
    return std::vector<int64_t>{TableSnapshot(tables[0]).version(),
                                TableSnapshot(tables[1]).version()};
  };
  const std::vector<int64_t> before = versions();
  ASSERT_TRUE(IsOk(Subtract(second.get(), {1}, {1})));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition,
                        "table 'users' must not change while it is saved",
                        TableSnapshot::MarkSaved(tables, before)));
  EXPECT_TRUE(TableSnapshot(first.get()).is_everything_changed());
  const std::vector<int64_t> now = versions();
  ASSERT_TRUE(IsOk(TableSnapshot::MarkSaved(tables, now)));
  ASSERT_TRUE(IsOk(Subtract(first.get(), {3}, {1})));
  // Whoever began to save before that would have missed what it took for unchanged.
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "nor be saved twice at a time",
                        TableSnapshot::MarkSaved({second.get()}, {now[1]})));
  EXPECT_EQ(KeysOf(ExportRaw(first.get(), kChanged)), Keys{3});
}

TEST(TableSnapshot, EndsAWalkWhenTheTableChanges) {
  const TempFolder folder;
  const auto table = OpenWithRule(OverSsd(folder / "rows", 1), AdamRule());
  const auto apply = [&] { return Apply(table.get(), {1, 1}, {1, 2, 3}, {1, 1, 1}); };
  ASSERT_TRUE(IsOk(apply()));
  ASSERT_TRUE(IsOk(MarkSaved(table.get())));
  ASSERT_TRUE(IsOk(apply()));
  for (const RawSelection& selection : {RawSelection{}, kChanged, kUnlinked}) {
    RawRows rows;
    ASSERT_TRUE(IsOk(ExportFrom(table.get(), 0, &rows, selection)));
    const int64_t cursor = rows.next_cursor;
    ASSERT_GT(cursor, 0);
    ASSERT_TRUE(IsOk(apply()));
    EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "must not change while it is exported",
                          ExportFrom(table.get(), cursor, &rows, selection)));
    ASSERT_TRUE(IsOk(ExportFrom(table.get(), -1, &rows, selection)));
    EXPECT_TRUE(rows.keys.empty());
    EXPECT_EQ(rows.next_cursor, -1);
  }
  RawRows rows;
  ASSERT_TRUE(IsOk(ExportFrom(table.get(), 0, &rows)));
  const int64_t tier = int64_t{9} << 44;
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "`cursor` must be 0 or one that Export gave",
                        ExportFrom(table.get(), (rows.next_cursor >> 48 << 48) | tier, &rows)));
  EXPECT_FALSE(ExportFrom(table.get(), -2, &rows).ok());
}

TEST(TableSnapshot, EndsAWalkWhenARuleIsRefused) {
  const TempFolder folder;
  const auto table = OpenWithRule(OverSsd(folder / "rows", 1), AdamRule());
  ASSERT_TRUE(IsOk(Apply(table.get(), {1, 1}, {1, 2, 3}, {1, 1, 1})));
  RawRows rows;
  ASSERT_TRUE(IsOk(ExportFrom(table.get(), 0, &rows)));
  // Pending moves have been made by the time the new store finds no folder.
  std::string path;
  for (const std::string& name : folder.Contents()) {
    if (name.find("ssdhash-") != std::string::npos && name.find(".seg") == std::string::npos) {
      path = folder / name;
    }
  }
  path.back() = static_cast<char>(path.back() + 1);
  std::ofstream(path) << "taken";
  ASSERT_FALSE(SetRule(table.get(), SgdRule(), Inline()).ok());
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "must not change",
                        ExportFrom(table.get(), rows.next_cursor, &rows)));
  EXPECT_EQ(ExportAll(*table).size(), 3u);
}

TEST(TableSnapshot, GivesTheStateOfOneVersionOrFails) {
  const TempFolder folder;
  TableOptions options = OverSsd(folder / "rows", 4, 20000);
  options.initializer = {};
  const auto table = OpenWithRule(options, SgdRule());
  const std::vector<int64_t> ids = Range(0, 2000);
  const std::vector<float> grads(2000 * 4, -1.0f);
  ASSERT_TRUE(IsOk(Subtract(table.get(), ids, grads)));
  std::atomic<bool> ends{false};
  std::thread trainer([&] {
    for (int step = 0; step < 40; ++step) {
      ASSERT_TRUE(IsOk(Subtract(table.get(), ids, grads)));
      (void)Lookup(table.get(), Range(0, 50));
      std::this_thread::yield();
    }
    ends = true;
  });
  // All rows alike, and all there, wherever a walk has come to its end.
  const TableSnapshot snapshot(table.get());
  int64_t saves = 0;
  for (bool is_last = false; !is_last || saves == 0;) {
    is_last = ends;
    const int64_t version = snapshot.version();
    std::set<float> values;
    size_t num_rows = 0;
    RawRows rows;
    Status status;
    for (int64_t cursor = 0; cursor >= 0 && status.ok(); cursor = rows.next_cursor) {
      status = snapshot.Export({}, cursor, 300, &rows);
      num_rows += rows.keys.size();
      for (const float value : Floats({rows.records.begin(), rows.records.end()})) {
        values.insert(value);
      }
    }
    if (status.ok()) {
      ASSERT_EQ(num_rows, 2000u);
      ASSERT_EQ(values.size(), 1u) << "a mixture";
    } else {
      ASSERT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.message();
    }
    if (TableSnapshot::MarkSaved({table.get()}, {version}).ok()) {
      ASSERT_TRUE(IsOk(status));
      ++saves;
    }
  }
  trainer.join();
}

}  // namespace keras_sparse::table_snapshot_test
