#include "ops/core/table/tier_stack.h"

#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/small_store.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::tier_stack_test {

// Rows 0 to 4999, of which the even ones are below.
std::unique_ptr<EmbeddingTable> OpenHalfBelow(std::unique_ptr<RowStore> store) {
  auto table = OpenWithRule(Dynamic(1), SgdRule());
  EXPECT_TRUE(IsOk(AddLowerTier(table.get(), std::move(store))));
  const std::vector<int64_t> keys = Range(0, 5000);
  EXPECT_TRUE(IsOk(Subtract(table.get(), keys, std::vector<float>(5000, 1))));
  std::vector<int64_t> below;
  for (int64_t key = 0; key < 5000; key += 2) below.push_back(key);
  EXPECT_TRUE(IsOk(Demote(table.get(), below)));
  return table;
}

TEST(TierStack, KnowsWhereTheRowOfAKeyIs) {
  const auto table = OpenHalfBelow(std::make_unique<DramStore>(4));
  const ReadLocks locks({table.get()});
  const TierStack& tiers = locks[0].tiers;
  EXPECT_EQ(tiers.num_rows(), 5000);
  EXPECT_TRUE(tiers.HasRowsBelow());
  EXPECT_TRUE(tiers.IsInFirstTier(1));
  EXPECT_FALSE(tiers.IsInFirstTier(2));
  EXPECT_EQ(tiers.AreAbove(0, {1, 2, -7}), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(tiers.AreAbove(1, {1, 2, -7}), (std::vector<bool>{true, true, false}));
}

TEST(TierStack, GivesTheKeysWithoutRowOnceAndInOrderForAnyNumberOfThreads) {
  const auto table = OpenHalfBelow(std::make_unique<DramStore>(4));
  std::vector<int64_t> keys = RandomIds(4000, -100, 5100, 1);
  std::vector<int64_t> expected;
  for (const int64_t key : keys) {
    if (key < 0 || key >= 5000) expected.push_back(key);
  }
  std::sort(expected.begin(), expected.end());
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  ASSERT_GT(expected.size(), 50u);
  const ReadLocks locks({table.get()});
  ThreadExecutor executor(3);
  EXPECT_EQ(locks[0].tiers.KeysWithoutRow(keys.data(), 4000, Inline()), expected);
  EXPECT_EQ(locks[0].tiers.KeysWithoutRow(keys.data(), 4000, &executor), expected);
}

TEST(TierStack, DropsNoRowOfTheFirstTierWhereItCannotDropThoseBelow) {
  auto owned = std::make_unique<SmallStore>(4, 5000);
  SmallStore* store = owned.get();
  const auto table = OpenHalfBelow(std::move(owned));
  const WriteLocks locks({table.get()});
  TierStack& tiers = locks[0].tiers;
  store->fails_erase = true;
  EXPECT_FALSE(tiers.EraseEverywhere({1, 2}, 1).ok());
  EXPECT_TRUE(tiers.IsInFirstTier(1));
  store->fails_erase = false;
  EXPECT_TRUE(IsOk(tiers.EraseEverywhere({1, 2}, 1)));
  EXPECT_EQ(tiers.AreAbove(1, {1, 2, 3, 4}), (std::vector<bool>{false, false, true, true}));
}

}  // namespace keras_sparse::tier_stack_test
