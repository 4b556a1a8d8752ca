// EraseRows: from all tiers, for good, and known to the next checkpoint.

#include "ops/core/operations/set_filter.h"
#include "tests/ops/core/support/check_compact.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/small_store.h"
#include "tests/ops/core/support/snapshot_testing.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::erase_rows_test {

std::set<int64_t> ErasedKeys(EmbeddingTable* table) {
  const std::vector<int64_t> keys = TableSnapshot(table).ErasedKeys();
  return {keys.begin(), keys.end()};
}

TEST(EraseRows, TakesRowsOutOfEveryTier) {
  for (const char* eviction_threads : {"0", "1"}) {
    const TempFolder folder;
    TableOptions options = Dynamic(8);
    options.storage = {{"ssdhash"}, {40000, int64_t{1} << 30}, folder / "rows", "LRU"};
    ::setenv("KERAS_SPARSE_EVICTION_THREADS", eviction_threads, 1);
    const auto table = OpenWithRule(options, AdagradRule(0.1));
    ::unsetenv("KERAS_SPARSE_EVICTION_THREADS");
    const auto plain = OpenWithRule(Dynamic(8), AdagradRule(0.1));
    ThreadExecutor executor(2);
    for (EmbeddingTable* each : {table.get(), plain.get()}) {
      for (int64_t first = 0; first < 3000; first += 500) {
        const std::vector<float> grads = RandomFloats(500 * 8, static_cast<uint64_t>(first));
        ASSERT_TRUE(IsOk(Apply(each, {0.1f}, Range(first, first + 500), grads, &executor)));
      }
      ASSERT_TRUE(IsOk(MarkSaved(each)));
      // Old and new rows, one of them twice, and some that are none; nothing waits to be written.
      std::vector<int64_t> keys = Range(-10, 1000);
      keys.insert(keys.end(), {2990, 2991, 2990, INT64_MIN});
      (void)Lookup(each, keys);
      ASSERT_TRUE(IsOk(EraseRows(each, keys, &executor)));
      EXPECT_EQ(NumRowsOf(*each), 1998);
      for (const int64_t key : {0, 999, 2990}) {
        EXPECT_EQ(Lookup(each, {key}), InitialRow(Dynamic(8), key));
        EXPECT_EQ(ErasedKeys(each).count(key), 1u);
      }
      EXPECT_TRUE(ExportRaw(each, kChanged).empty());
    }
    EXPECT_GT(TierStatsOf(*table)[1].rows, 100);
    ASSERT_EQ(ExportAll(*table), ExportAll(*plain));
    // A key that comes again begins anew, slots too.
    for (EmbeddingTable* each : {table.get(), plain.get()}) {
      ASSERT_TRUE(IsOk(Apply(each, {0.1f}, {5, 2990}, std::vector<float>(16, 1.0f), &executor)));
      EXPECT_EQ(KeysOf(ExportRaw(each, kChanged)), (std::set<int64_t>{5, 2990}));
      EXPECT_EQ(ErasedKeys(each).count(5), 0u) << "its row takes the place of the old one";
    }
    const auto fresh = OpenWithRule(Dynamic(8), AdagradRule(0.1));
    ASSERT_TRUE(IsOk(Apply(fresh.get(), {0.1f}, {5}, std::vector<float>(8, 1.0f))));
    EXPECT_EQ(ExportAll(*table).at(5), ExportAll(*fresh).at(5));
    ASSERT_EQ(ExportAll(*table), ExportAll(*plain));
  }
}

TEST(EraseRows, TakesNothingFromAStaticTable) {
  const auto table = OpenWithRule(Options(10, 1), SgdRule());
  const TableSnapshot snapshot(table.get());
  const int64_t version = snapshot.version();
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "static table 'items' keeps all its rows",
                        EraseRows(table.get(), {1})));
  EXPECT_EQ(snapshot.version(), version);
  EXPECT_EQ(NumRowsOf(*table), 10);
}

TEST(EraseRows, TakesWhatTheFilterHasOfKeysThatWait) {
  const auto table = OpenWithRule(Dynamic(1), SgdRule());
  FilterOptions filter;
  filter.filter = "counter";
  filter.constants = {{"filter_freq", 2}, {"counts_occurrences", 0}};
  ASSERT_TRUE(IsOk(SetFilter(table.get(), filter)));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2}, {1, 1})));
  ASSERT_TRUE(IsOk(EraseRows(table.get(), {1, 9})));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2}, {1, 1})));
  EXPECT_EQ(KeysOf(ExportRaw(table.get())), (std::set<int64_t>{2})) << "1 waits anew";
}

TEST(EraseRows, EndsAnExportAndChangesTheVersionWhateverItFinds) {
  const auto table = OpenWithRule(Dynamic(1), SgdRule());
  const TableSnapshot snapshot(table.get());
  for (const std::vector<int64_t>& keys : {std::vector<int64_t>{1}, std::vector<int64_t>{}}) {
    const int64_t version = snapshot.version();
    ASSERT_TRUE(IsOk(EraseRows(table.get(), keys)));
    EXPECT_GT(snapshot.version(), version);
  }
}

// Over a store that the test can see.
std::pair<std::unique_ptr<EmbeddingTable>, SmallStore*> OverSmallStore() {
  auto table = OpenWithRule(Dynamic(1), SgdRule());
  auto owned = std::make_unique<SmallStore>(4, 1000);
  SmallStore* store = owned.get();
  EXPECT_TRUE(IsOk(AddLowerTier(table.get(), std::move(owned))));
  EXPECT_TRUE(IsOk(Subtract(table.get(), {1, 2, 3, 4}, {1, 1, 1, 1})));
  const std::vector<int64_t> below = {1, 2};
  EXPECT_TRUE(IsOk(Demote(table.get(), below.data(), 2)));
  return {std::move(table), store};
}

TEST(EraseRows, LeavesRowsWhereATierFails) {
  const auto [table, store] = OverSmallStore();
  SavedTable saved;
  saved.SaveAll(table.get());
  const Exported before = ExportAll(*table);
  store->fails_erase = true;
  EXPECT_TRUE(
      FailsWith(StatusCode::kDataLoss, "the disk is gone", EraseRows(table.get(), {1, 3, 77})));
  EXPECT_EQ(ExportAll(*table), before);
  saved.SaveChanges(table.get());
  EXPECT_EQ(saved.Load(), ExportRaw(table.get()));
  store->fails_erase = false;
  ASSERT_TRUE(IsOk(EraseRows(table.get(), {1, 3, 77})));
  EXPECT_EQ(KeysOf(ExportRaw(table.get())), (std::set<int64_t>{2, 4}));
  saved.SaveChanges(table.get());
  EXPECT_EQ(saved.Load(), ExportRaw(table.get()));
}

TEST(EraseRows, IsKnownToTheNextSaveEvenWhereItWasDoneByHalf) {
  const auto [table, store] = OverSmallStore();
  auto owned = std::make_unique<SmallStore>(4, 1000);
  SmallStore* lowest = owned.get();
  ASSERT_TRUE(IsOk(AddLowerTier(table.get(), std::move(owned))));
  const int64_t key = 5;
  const float record = 1;
  ASSERT_TRUE(IsOk(lowest->Put(&key, 1, reinterpret_cast<const char*>(&record))));
  SavedTable saved;
  saved.SaveAll(table.get());
  store->fails_erase = true;  // the rows of the tier below have gone by then
  EXPECT_FALSE(EraseRows(table.get(), {1, 3, 5}).ok());
  EXPECT_EQ(KeysOf(ExportRaw(table.get())), (std::set<int64_t>{1, 2, 3, 4}));
  saved.SaveChanges(table.get());
  EXPECT_EQ(saved.Load(), ExportRaw(table.get()));
  ASSERT_EQ(lowest->num_rows(), 0);
}

TEST(EraseRows, MakesRoomInATierThatIsFull) {
  const TempFolder folder;
  TableOptions options = Dynamic(64);
  options.storage = {{"ssdhash"}, {1, 300000}, folder / "rows", "LRU"};
  ::setenv("KERAS_SPARSE_EVICTION_THREADS", "0", 1);
  const auto table = OpenWithRule(options, SgdRule());
  ::unsetenv("KERAS_SPARSE_EVICTION_THREADS");
  Status status;
  for (int64_t first = 0; status.ok(); first += 200) {
    ASSERT_LT(first, 10000);
    status = Subtract(table.get(), Range(first, first + 200), RandomFloats(200 * 64, 1));
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  Exported expected = ExportAll(*table);
  ASSERT_TRUE(IsOk(EraseRows(table.get(), Range(0, 400))));
  for (const int64_t key : Range(0, 400)) expected.erase(key);
  EXPECT_EQ(ExportAll(*table), expected);
  EXPECT_TRUE(IsOk(Subtract(table.get(), {1}, RandomFloats(64, 1))));
}

TEST(CompactTiers, LeavesNoByteOfRowsThatHaveGoneOrComeUp) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  const auto table = OpenWithRule(Dynamic(kBytes / 4), SgdRule());
  ASSERT_TRUE(IsOk(AddLowerTier(table.get(), OpenLinked(folder / "rows", &file_system))));
  const std::vector<int64_t> keys = Range(0, 500);
  const auto train = [&](const std::vector<int64_t>& some) {
    const auto n = static_cast<int64_t>(some.size());
    ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, some, RandomFloats(n * kBytes / 4, 1))));
  };
  train(keys);
  const auto trained = ExportAll(*table);
  ASSERT_TRUE(IsOk(Demote(table.get(), keys.data(), 500)));
  const std::vector<int64_t> up = Range(10, 60);
  train(up);
  ASSERT_TRUE(IsOk(EraseRows(table.get(), Range(100, 140))));
  const auto expected = ExportAll(*table);
  GoneRecords gone;
  for (const auto& [key, row] : trained) {
    const auto at = expected.find(key);
    if (at != expected.end() && at->second == row) continue;
    gone.Add({reinterpret_cast<const char*>(row.record.data()), kBytes});
  }
  EXPECT_GT(gone.CountIn(folder), 0);
  file_system.creations_left = 0;
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "table 'items': could not create",
                        CompactTiers(*table)));
  file_system.creations_left = INT64_MAX;
  ASSERT_TRUE(IsOk(CompactTiers(*table)));
  EXPECT_EQ(gone.CountIn(folder), 0);
  EXPECT_EQ(ExportAll(*table), expected);
  EXPECT_TRUE(IsOk(CompactTiers(*OpenWithRule(Options(10, 1), SgdRule()))));
}

}  // namespace keras_sparse::erase_rows_test
