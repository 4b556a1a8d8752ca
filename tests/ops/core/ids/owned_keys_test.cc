#include "ops/core/ids/owned_keys.h"

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::owned_keys_test {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(OwnedKeys, HasEachKeyInOneShard) {
  for (const int64_t num_shards : {1, 2, 3, 8}) {
    for (const int64_t key :
         {kLeast, kLeast + 1, int64_t{-4}, int64_t{-1}, int64_t{0}, int64_t{5}, kMost - 1, kMost}) {
      int64_t owners = 0;
      for (int64_t shard = 0; shard < num_shards; ++shard) {
        if (!OwnedKeys{-1, shard, num_shards}.Hold(key)) continue;
        ++owners;
        // Without the overflow of key - shard.
        EXPECT_EQ((key % num_shards + num_shards) % num_shards, shard);
      }
      EXPECT_EQ(owners, 1);
    }
  }
}

TEST(OwnedKeys, HasTheIdsOfAStaticTable) {
  const OwnedKeys owned = {10};
  for (const int64_t id : {int64_t{0}, int64_t{9}}) EXPECT_TRUE(owned.Hold(id));
  for (const int64_t id : {kLeast, int64_t{-1}, int64_t{10}, kMost}) EXPECT_FALSE(owned.Hold(id));
}

}  // namespace keras_sparse::owned_keys_test
