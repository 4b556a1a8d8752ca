// Memory, persistent memory and a disk below it.
#include <utility>

#include "ops/core/stores/tiered_store.h"
#include "tests/ops/core/support/check_moving_rows.h"
#include "tests/ops/core/support/check_tiered_table.h"

namespace keras_sparse::three_tiers_test {

std::unique_ptr<RowStore> OpenStore(const std::string& kind, const TempFolder& folder,
                                    int64_t record_bytes, int64_t capacity) {
  const bool keeps_order = kind == "pmem";
  static int number = 0;
  StoreOptions options{kind, folder / (kind + std::to_string(number++)), record_bytes, capacity,
                       keeps_order};
  std::unique_ptr<RowStore> store;
  const Status status = RowStore::Open(options, &store);
  // LevelDB may be left out of the build.
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalidArgument) << status.message();
  return store;
}

class ThreeTiers : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (OpenStore(GetParam(), folder_, 4, 1 << 20) == nullptr) GTEST_SKIP() << "not in this build";
  }

  std::unique_ptr<RowStore> Open(int64_t record_bytes, int64_t upper_bytes) {
    auto lower = OpenStore(GetParam(), folder_, record_bytes, 1 << 30);
    lower_ = lower.get();
    std::unique_ptr<RowStore> store;
    EXPECT_TRUE(IsOk(TieredStore::Open(OpenStore("pmem", folder_, record_bytes, upper_bytes),
                                       std::move(lower), &store)));
    return store;
  }

  const TempFolder folder_;
  RowStore* lower_ = nullptr;  // of the store that was opened last
};

TEST_P(ThreeTiers, KeepTheContractOfAStore) {
  for (const int64_t upper_bytes : {1, 20000}) {
    CheckStore([&](int64_t record_bytes) { return Open(record_bytes, upper_bytes); });
  }
  EXPECT_TRUE(folder_.Contents().empty()) << "a store leaves nothing behind";
}

TEST_P(ThreeTiers, ShowEveryRowWhileItMoves) {
  const auto store = Open(50, 64 + 100 * 62);
  CheckMovingRows(store.get(), 60);
  EXPECT_GT(lower_->num_rows(), 0);
}

TEST_P(ThreeTiers, AreTheTableInMemoryBitForBit) {
  // First and middle tiers that hold nothing, some rows, or all.
  for (const auto& [first_bytes, middle_bytes] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 40000}, {40000, 3000}, {40000, 4 << 20}}) {
    const StorageOptions storage = {
        {"pmem", GetParam()}, {first_bytes, middle_bytes, int64_t{1} << 30}, "", "LRU"};
    CheckTieredTable(storage, first_bytes == 1 ? AdamRule() : AdagradRule(0.1));
    CheckTieredTable(storage, AdamRule(), 20, kPackedTypes[first_bytes == 1 ? 0 : 2]);
  }
}

TEST_P(ThreeTiers, LetNoRowGoWhenTheLastOneIsFull) {
  TableOptions options = Dynamic(64);
  options.storage = {{"pmem", GetParam()}, {1 << 20, 1 << 20, 2 << 20}, folder_ / "rows", "LRU"};
  const auto table = OpenWithRule(options, SgdRule());
  const auto plain = OpenWithRule(Dynamic(64), SgdRule());
  const Status status = CheckFullLastTier(table.get(), plain.get());
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "the size of the " + GetParam() + " tier must hold all rows", status));
  EXPECT_GT(NumRowsOf(*table), 3 * (1 << 20) / 280);
}

INSTANTIATE_TEST_SUITE_P(Last, ThreeTiers, ::testing::Values("ssdhash", "leveldb"),
                         [](const auto& param) { return param.param; });

TEST(ThreeTiersOptions, NeedAMiddleOneThatKnowsItsOrder) {
  const TempFolder folder;
  TableOptions options = Dynamic(4);
  options.storage = {{"ssdhash", "ssdhash"}, {1000, 1000, 1000}, folder / "rows", "LRU"};
  std::unique_ptr<EmbeddingTable> table;
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "ssdhash does not; make it the last one",
                        EmbeddingTable::Open(options, Inline(), &table)));
  EXPECT_TRUE(folder.Contents().empty());
}

}  // namespace keras_sparse::three_tiers_test
