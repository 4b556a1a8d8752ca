#include "ops/core/stores/instrumented_store.h"

#include "ops/core/stores/tiered_store.h"
#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/small_store.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::instrumented_store_test {

TEST(InstrumentedStore, KeepsTheContractOfAStore) {
  CheckStore([](int64_t record_bytes) {
    return std::make_unique<InstrumentedStore>(std::make_unique<DramStore>(record_bytes));
  });
}

TEST(InstrumentedStore, CountsRowsAndNotCalls) {
  InstrumentedStore store(std::make_unique<DramStore>(100));
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 10), 1)));
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(5, 12), 2)));  // five are replaced
  std::vector<int64_t> keys = Range(8, 20);
  std::string records(12 * 100, '?');
  const std::unique_ptr<bool[]> found(new bool[12]);
  ASSERT_TRUE(IsOk(store.Get(keys.data(), 12, records.data(), found.get())));
  ASSERT_TRUE(IsOk(store.Erase(keys.data(), 12)));
  const StoreCounts counts = store.counts();
  EXPECT_EQ(counts.added_rows, 12);
  EXPECT_EQ(counts.write_bytes, 17 * 100);
  EXPECT_EQ(counts.hits, 4);
  EXPECT_EQ(counts.misses, 8);
  EXPECT_EQ(counts.read_bytes, 4 * 100);
  EXPECT_EQ(counts.erased_rows, 4);
  store.CountAnew();
  EXPECT_EQ(store.counts().added_rows, 0);
  EXPECT_EQ(store.counts().hits, 0);
  EXPECT_EQ(store.num_rows(), 8);
}

TEST(InstrumentedStore, TellsRowsThatMovedOnFromThoseThatLeft) {
  auto* upper = new InstrumentedStore(std::make_unique<SmallStore>(100, 20));
  auto* lower = new InstrumentedStore(std::make_unique<DramStore>(100));
  std::unique_ptr<RowStore> store;
  ASSERT_TRUE(IsOk(TieredStore::Open(std::unique_ptr<RowStore>(upper),
                                     std::unique_ptr<RowStore>(lower), &store)));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(0, 15), 1)));
  ASSERT_TRUE(IsOk(PutRecords(store.get(), Range(15, 45), 1)));  // 10 of them go past the upper one
  const std::vector<int64_t> keys = {0, 3, 40};                  // two below, one above
  ASSERT_TRUE(IsOk(store->Erase(keys.data(), 3)));
  EXPECT_EQ(upper->counts().added_rows, 35);
  EXPECT_EQ(upper->counts().moved_rows, 15);
  EXPECT_EQ(upper->counts().erased_rows, 1);
  EXPECT_EQ(lower->counts().added_rows, 25);
  EXPECT_EQ(lower->counts().moved_rows, 0);
  EXPECT_EQ(lower->counts().erased_rows, 2);
}

TEST(TierStatsOfATable, TellWhereRowsAreAndWhichWayTheyWent) {
  const TempFolder folder;
  // In the step itself: or it depends on the threads what is read before it is written.
  ::setenv("KERAS_SPARSE_EVICTION_THREADS", "0", 1);
  TableOptions options = Dynamic(64);
  options.storage = {{"ssdhash"}, {1 << 20, 1 << 26}, folder / "ssd", "LRU"};
  const auto table = OpenWithRule(options, AdagradRule(0.1));
  for (int64_t step = 0; step < 30; ++step) {
    const std::vector<int64_t> ids = RandomIds(1000, 0, 6000, static_cast<uint64_t>(step));
    (void)Lookup(table.get(), ids);
    ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, std::vector<float>(64000, 1.0f))));
  }
  const std::vector<TierStats> tiers = TierStatsOf(*table);
  const TableStats stats = StatsOf(*table);
  ASSERT_EQ(tiers.size(), 2u);
  EXPECT_EQ(tiers[0].tier, "dram");
  EXPECT_EQ(tiers[1].tier, "ssdhash");
  EXPECT_EQ(tiers[0].rows + tiers[1].rows, stats.rows);
  EXPECT_EQ(tiers[0].bytes, FirstTierBytes(*table));
  EXPECT_EQ(tiers[0].hits + tiers[0].misses, stats.lookups);
  EXPECT_GT(tiers[1].hits, 0);
  EXPECT_EQ(tiers[1].rows, tiers[1].demotions - tiers[1].promotions);
  EXPECT_EQ(tiers[0].demotions, tiers[1].demotions);
  EXPECT_EQ(tiers[0].promotions, tiers[1].promotions);
  EXPECT_EQ(tiers[0].rows, stats.created_rows - tiers[0].demotions + tiers[0].promotions);
  EXPECT_EQ(tiers[1].write_bytes, tiers[1].demotions * 512);
  EXPECT_EQ(tiers[1].read_bytes, tiers[1].hits * 512);
  EXPECT_GT(tiers[1].compacted_bytes, 0);
  EXPECT_GT(stats.waited_ns, 0);
  // Another optimizer: the rows it has laid out anew have not moved.
  ASSERT_TRUE(IsOk(SetRule(table.get(), SgdRule(), Inline())));
  EXPECT_EQ(TierStatsOf(*table)[1].rows, tiers[1].rows);
  EXPECT_EQ(TierStatsOf(*table)[1].write_bytes, 0);
  ::unsetenv("KERAS_SPARSE_EVICTION_THREADS");
}

}  // namespace keras_sparse::instrumented_store_test
