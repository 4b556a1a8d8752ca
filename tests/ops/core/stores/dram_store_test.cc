#include "ops/core/stores/dram_store.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/ops/core/support/check_store.h"

namespace keras_sparse {
namespace dram_store_test {

TEST(DramStore, KeepsTheContractOfAStore) {
  CheckStore([](int64_t record_bytes) { return std::make_unique<DramStore>(record_bytes); });
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

}  // namespace dram_store_test
}  // namespace keras_sparse
