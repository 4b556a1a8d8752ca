// What a policy lets go goes from every tier, for good, and whatever else is going on there.
#include <thread>

#include "ops/core/stores/tiered_store.h"
#include "ops/core/stores/write_back_buffer.h"
#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/gate.h"
#include "tests/ops/core/support/small_store.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/temp_folder.h"

namespace keras_sparse::eviction_below_test {

using Row = std::vector<float>;

// The row of one float, and its gradient's step.
constexpr int64_t kRecordBytes = 8;

// A table of rows of zeros, of one float, over a store.
std::unique_ptr<EmbeddingTable> TableOver(std::unique_ptr<RowStore> store) {
  TableOptions options = Aging(Dynamic(1));
  options.initializer = {};
  auto table = OpenWithRule(options, SgdRule());
  EXPECT_TRUE(IsOk(AddLowerTier(table.get(), std::move(store))));
  return table;
}

TEST(EvictionBelow, TakesRowsOfThreeTiers) {
  std::unique_ptr<RowStore> cascade;
  ASSERT_TRUE(IsOk(TieredStore::Open(std::make_unique<SmallStore>(kRecordBytes, 3),
                                     std::make_unique<SmallStore>(kRecordBytes, 100), &cascade)));
  const auto table = TableOver(std::move(cascade));
  for (int64_t key = 0; key < 12; ++key) {
    ASSERT_TRUE(IsOk(Subtract(table.get(), {key}, {static_cast<float>(key % 4)})));
    if (key < 8) {
      ASSERT_TRUE(IsOk(Demote(table.get(), {key})));
    }
  }
  EXPECT_EQ(Evict(table.get(), WeightBelow(1)), 6);  // 0 and 1 of each four
  const Exported left = ExportAll(*table);
  EXPECT_EQ(left.size(), 6u);
  for (const int64_t key : {2, 3, 6, 7, 10, 11}) EXPECT_EQ(left.count(key), 1u);
  EXPECT_EQ(Evict(table.get(), OlderThan(4)), 3);
  EXPECT_EQ(ExportAll(*table).size(), 3u);
}

TEST(EvictionBelow, TakesRowsOnTheirWayDown) {
  BackgroundPool pool(1);
  auto gate = std::make_unique<Gate>(&pool);
  const auto table = TableOver(std::make_unique<WriteBackBuffer>(
      std::make_unique<SmallStore>(kRecordBytes, 100), &pool, 1 << 20));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2, 3}, {1, 2, 3})));
  ASSERT_TRUE(IsOk(Demote(table.get(), {1, 2})));
  std::thread opener([&gate] { gate->Open(); });
  EXPECT_EQ(Evict(table.get(), WeightBelow(2)), 1);
  opener.join();
  EXPECT_EQ(Lookup(table.get(), {1, 2, 3}), Row({0, -2, -3}));
  EXPECT_EQ(StatsOf(*table).rows, 2);
  EXPECT_EQ(TierStatsOf(*table)[0].promotions, 0);
}

TEST(EvictionBelow, MakesRoomForRowsThatAFullTierHasRefused) {
  BackgroundPool pool(1);
  const auto table = TableOver(std::make_unique<WriteBackBuffer>(
      std::make_unique<SmallStore>(kRecordBytes, 10), &pool, 1 << 20));
  const std::vector<int64_t> keys = Range(0, 20);
  ASSERT_TRUE(IsOk(Subtract(table.get(), keys, Row(20, 1))));
  const std::vector<int64_t> first(keys.begin(), keys.begin() + 10);
  const std::vector<int64_t> second(keys.begin() + 10, keys.begin() + 15);
  ASSERT_TRUE(IsOk(Demote(table.get(), first)));
  (void)StatsOf(*table);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {10, 11, 12, 13, 14, 15, 16, 17}, Row(8, 2))));
  ASSERT_TRUE(IsOk(Demote(table.get(), second)));
  (void)StatsOf(*table);  // by now they are stuck
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "is full", Demote(table.get(), {15})));
  EXPECT_EQ(Evict(table.get(), WeightBelow(1)), 12);
  EXPECT_EQ(NumRowsOf(*table), 8);
  ASSERT_TRUE(IsOk(Demote(table.get(), {15})));
  EXPECT_EQ(StatsOf(*table).rows, 8);
  EXPECT_EQ(ExportAll(*table).size(), 8u);
  EXPECT_EQ(Lookup(table.get(), {0, 9, 10, 15, 18}), Row({0, 0, -3, -3, 0}));
}

TEST(EvictionBelow, GivesRoomToATableWhoseDiskIsFull) {
  const TempFolder folder;
  TableOptions options = Aging(Dynamic(64));
  options.storage = {{"ssdhash"}, {1 << 20, 1 << 20}, folder / "ssd", "LRU"};
  const auto table = OpenWithRule(options, SgdRule());
  const auto step = [&](uint64_t seed) {
    return Apply(table.get(), {0.1f}, RandomIds(1000, 0, 1 << 30, seed), RandomFloats(64000, seed));
  };
  uint64_t seed = 0;
  while (step(seed).ok()) ++seed;
  const int64_t rows = NumRowsOf(*table);
  EXPECT_GT(Evict(table.get(), OlderThan(2)), 1000);
  EXPECT_LT(NumRowsOf(*table), rows - 1000);
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(IsOk(step(++seed)));
    (void)Evict(table.get(), OlderThan(2));
    EXPECT_EQ(static_cast<int64_t>(ExportAll(*table).size()), NumRowsOf(*table));
  }
}

TEST(EvictionBelow, ChangesNothingIfATierCannotBeRead) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  auto store = OpenSsd(SsdOf(folder / "store", kRecordBytes, 4096, &file_system));
  const auto table = TableOver(std::move(store));
  const std::vector<int64_t> keys = Range(0, 2000);
  ASSERT_TRUE(IsOk(Subtract(table.get(), keys, Row(2000, 1))));
  ASSERT_TRUE(IsOk(Demote(table.get(), {keys.begin(), keys.begin() + 1500})));
  const Exported before = ExportAll(*table);
  std::string segment;
  for (const std::string& path : folder.Contents()) {
    if (path.find("000000.seg") != std::string::npos) segment = path;
  }
  FlipByte(folder / segment, 64 + 12);
  int64_t num_evicted = -1;
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "000000.seg",
                        TryToEvict(table.get(), WeightBelow(9), &num_evicted)));
  EXPECT_EQ(num_evicted, 0);
  FlipByte(folder / segment, 64 + 12);
  EXPECT_EQ(ExportAll(*table), before);
  EXPECT_EQ(Evict(table.get(), WeightBelow(9)), 2000);
}

struct OverFaulty {
  std::unique_ptr<EmbeddingTable> table;
  SmallStore* store;
};

OverFaulty OpenOverFaulty() {
  auto owned = std::make_unique<SmallStore>(kRecordBytes, 1000);
  SmallStore* store = owned.get();
  return {TableOver(std::move(owned)), store};
}

TEST(EvictionBelow, LeavesTheFirstTierAloneIfATierBelowCannotErase) {
  const OverFaulty faulty = OpenOverFaulty();
  ASSERT_TRUE(IsOk(Subtract(faulty.table.get(), {1, 2, 3}, {1, 2, 3})));
  ASSERT_TRUE(IsOk(Demote(faulty.table.get(), {1})));
  const Exported before = ExportAll(*faulty.table);
  faulty.store->fails_erase = true;
  int64_t num_evicted = -1;
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "the disk is gone",
                        TryToEvict(faulty.table.get(), WeightBelow(3), &num_evicted)));
  EXPECT_EQ(num_evicted, 0);
  EXPECT_EQ(ExportAll(*faulty.table), before);
  faulty.store->fails_erase = false;
  EXPECT_EQ(Evict(faulty.table.get(), WeightBelow(3)), 2);
  EXPECT_EQ(StatsOf(*faulty.table).evicted_rows, 2);
}

TEST(EvictionBelow, BringsNoOldCopyBack) {
  const OverFaulty faulty = OpenOverFaulty();
  EmbeddingTable* table = faulty.table.get();
  ASSERT_TRUE(IsOk(Subtract(table, {1, 2}, {1, 1})));
  ASSERT_TRUE(IsOk(Demote(table, {1, 2})));
  faulty.store->fails_erase = true;
  EXPECT_EQ(Subtract(table, {1, 2}, {9, 1}).code(), StatusCode::kDataLoss);
  faulty.store->fails_erase = false;
  // Now -10 and -2 above, -1 and -1 below: what is below is not judged, and goes with its row.
  EXPECT_EQ(Evict(table, WeightBelow(1)), 0);
  EXPECT_EQ(Evict(table, WeightBelow(3)), 1);
  EXPECT_EQ(Lookup(table, {1, 2}), Row({-10, 0}));
  ASSERT_TRUE(IsOk(Subtract(table, {2}, {5})));
  EXPECT_EQ(Lookup(table, {2}), Row({-5}));
}

TEST(EvictionBelow, JudgesARowByItsUppermostCopy) {
  const OverFaulty faulty = OpenOverFaulty();
  EmbeddingTable* table = faulty.table.get();
  auto lowest = std::make_unique<SmallStore>(kRecordBytes, 1000);
  const int64_t key = 1;
  const Row old = {0, 0};
  ASSERT_TRUE(IsOk(lowest->Put(&key, 1, reinterpret_cast<const char*>(old.data()))));
  ASSERT_TRUE(IsOk(Subtract(table, {1}, {4})));
  ASSERT_TRUE(IsOk(Demote(table, {1})));
  ASSERT_TRUE(IsOk(AddLowerTier(table, std::move(lowest))));
  EXPECT_EQ(Evict(table, WeightBelow(8)), 0);
  EXPECT_EQ(Lookup(table, {1}), Row({-4}));
  EXPECT_EQ(Evict(table, WeightBelow(9)), 1);
  EXPECT_EQ(NumRowsOf(*table), 0);
}

TEST(EvictionBelow, DropsWhatALookupHasRead) {
  const OverFaulty faulty = OpenOverFaulty();
  ASSERT_TRUE(IsOk(Subtract(faulty.table.get(), {1}, {1})));
  ASSERT_TRUE(IsOk(Demote(faulty.table.get(), {1})));
  EXPECT_EQ(Lookup(faulty.table.get(), {1}), Row({-1}));
  EXPECT_EQ(Evict(faulty.table.get(), WeightBelow(1)), 1);
  EXPECT_EQ(Lookup(faulty.table.get(), {1}), Row({0}));
  ASSERT_TRUE(IsOk(Subtract(faulty.table.get(), {1}, {7})));
  EXPECT_EQ(Lookup(faulty.table.get(), {1}), Row({-7}));
}

TEST(EvictionBelow, CallsNoEvictedRowOfAFullSsdPromoted) {
  const TempFolder folder;
  TableOptions options = Aging(Dynamic(64));
  options.storage = {{"ssdhash"}, {1 << 20, 1 << 20}, folder / "ssd", "LRU"};
  const auto table = OpenWithRule(options, SgdRule());
  uint64_t seed = 0;
  const auto step = [&] {
    ++seed;
    return Apply(table.get(), {0.1f}, RandomIds(1000, 0, int64_t{1} << 60, seed),
                 RandomFloats(64000, seed));
  };
  while (step().ok()) {
  }
  EXPECT_EQ(TierStatsOf(*table)[0].promotions, 0) << "no key came twice";
  EXPECT_GT(Evict(table.get(), OlderThan(2)), 1000);
  ASSERT_TRUE(IsOk(step()));
  EXPECT_EQ(TierStatsOf(*table)[0].promotions, 0);
}

}  // namespace keras_sparse::eviction_below_test
