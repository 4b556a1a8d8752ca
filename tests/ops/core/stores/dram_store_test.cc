#include "ops/core/stores/dram_store.h"

#include "ops/core/stores/tiered_store.h"
#include "tests/ops/core/support/check_store.h"

namespace keras_sparse::dram_store_test {

TEST(DramStore, KeepsTheContractOfAStore) {
  CheckStore([](int64_t record_bytes) { return std::make_unique<DramStore>(record_bytes); });
}

TEST(DramStore, KeepsTheContractOfAStoreAboveAnother) {
  for (const int64_t capacity : {1, 20000, 1 << 20}) {
    CheckStore([&](int64_t record_bytes) {
      std::unique_ptr<RowStore> store;
      EXPECT_TRUE(IsOk(TieredStore::Open(std::make_unique<DramStore>(record_bytes, capacity, true),
                                         std::make_unique<DramStore>(record_bytes), &store)));
      return store;
    });
  }
}

TEST(DramStore, TakesAsManyRowsAsItsSizeAllows) {
  DramStore store(36, 60 * 100 + 59);
  ASSERT_TRUE(IsOk(PutRecords(&store, Range(0, 90), 1)));
  EXPECT_EQ(store.Room(), 10);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "the size of the dram tier must hold all rows that do not fit above it",
                        PutRecords(&store, Range(80, 101), 2)));
  EXPECT_EQ(WalkStore(store, 1000), Records(Range(0, 90), 1, 36));
  std::vector<int64_t> keys = Range(80, 100);
  keys.push_back(85);  // again
  ASSERT_TRUE(IsOk(PutRecords(&store, keys, 3)));
  EXPECT_EQ(store.Room(), 0);
  EXPECT_EQ(DramStore(36).Room(), INT64_MAX);
}

TEST(DramStore, KnowsItsOldestRows) {
  DramStore store(8, 1 << 20, true);
  ASSERT_TRUE(IsOk(PutRecords(&store, {1, 2, 3, 4, 5}, 1)));
  ASSERT_TRUE(IsOk(PutRecords(&store, {2, 1, 2}, 2)));  // they are the newest now
  const int64_t gone = 4;
  ASSERT_TRUE(IsOk(store.Erase(&gone, 1)));
  ASSERT_TRUE(IsOk(PutRecords(&store, {6}, 1)));
  std::vector<int64_t> keys;
  std::vector<char> records;
  ASSERT_TRUE(IsOk(store.Oldest(3, &keys, &records)));
  EXPECT_EQ(keys, (std::vector<int64_t>{3, 5, 1}));
  EXPECT_EQ(std::string(records.data() + 16, 8), MakeRecord(1, 2, 8));
  keys.clear();
  ASSERT_TRUE(IsOk(store.Oldest(100, &keys, &records)));
  EXPECT_EQ(keys, (std::vector<int64_t>{3, 5, 1, 2, 6}));
  ASSERT_TRUE(IsOk(store.Clear()));
  keys.clear();
  ASSERT_TRUE(IsOk(store.Oldest(100, &keys, &records)));
  EXPECT_TRUE(keys.empty());
  EXPECT_EQ(DramStore(8).Oldest(1, &keys, &records).code(), StatusCode::kUnimplemented);
}

TEST(DramStore, KeepsItsSizeWhileKeysComeAndGo) {
  DramStore store(8);
  int64_t bytes = 0;
  for (int64_t round = 0; round < 200; ++round) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < 500; ++i) keys.push_back(round * 500 + i);
    ASSERT_TRUE(IsOk(PutRecords(&store, keys, 0)));
    ASSERT_TRUE(IsOk(store.Erase(keys.data(), 500)));
    if (round == 0) bytes = store.bytes();
  }
  EXPECT_LT(store.bytes(), 2 * bytes);
  EXPECT_EQ(store.num_rows(), 0);
}

}  // namespace keras_sparse::dram_store_test
