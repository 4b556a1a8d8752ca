#include "ops/core/index/key_counts.h"

#include <algorithm>
#include <map>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::key_counts_test {

// Places are hashes, so that tests can choose them.
constexpr HashSecret kNone = {0, 1};

std::map<int64_t, uint32_t> All(const KeyCounts& counts, int64_t num_entries = 100) {
  std::map<int64_t, uint32_t> all;
  for (int64_t at = 0; at >= 0;) {
    std::vector<int64_t> keys;
    std::vector<uint32_t> values;
    at = counts.Walk(at, num_entries, &keys, &values);
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_TRUE(all.emplace(keys[i], values[i]).second) << "key " << keys[i] << " came twice";
    }
  }
  return all;
}

TEST(KeyCounts, HoldsEveryKey) {
  KeyCounts counts(0);
  EXPECT_EQ(All(counts).size(), 0u);
  EXPECT_EQ(counts.Get(HashKey(0)), 0u);
  counts.Erase(HashKey(0));
  for (const int64_t key : ExtremeKeys()) EXPECT_EQ(counts.Add(HashKey(key), 1), 1u);
  for (const int64_t key : ExtremeKeys()) EXPECT_EQ(counts.Add(HashKey(key), 1), 2u);
  counts.Set(HashKey(-1), UINT32_MAX);
  EXPECT_EQ(counts.Add(HashKey(-1), 1), UINT32_MAX);
  EXPECT_EQ(counts.Add(HashKey(-1), UINT32_MAX), UINT32_MAX);
  counts.Set(HashKey(0), 0);
  const auto min = std::numeric_limits<int64_t>::min();
  const auto max = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(All(counts, 1),
            (std::map<int64_t, uint32_t>{{min, 2}, {-1, UINT32_MAX}, {1, 2}, {max, 2}}));
}

// Against a map, over growth, shrinkage and runs that wrap around the end. In the second case the
// homes of all keys are the last slots, so that nearly every run does.
TEST(KeyCounts, DoesWhatAMapDoes) {
  for (const bool crowded : {false, true}) {
    KeyCounts counts(0, kNone);
    std::map<int64_t, uint32_t> expected;
    std::mt19937_64 random(crowded ? 1 : 2);
    const auto key = [&](uint64_t i) {
      return crowded ? KeyOfHash((0xFFFFFFFFULL << 32) | (i * 0x9E3779B1u)) : KeyOfHash(i << 40);
    };
    const uint64_t steps = crowded ? 6000 : 60000;
    const uint64_t keys = crowded ? 300 : 5000;
    for (uint64_t step = 0; step < steps; ++step) {
      const int64_t each = key(random() % keys);
      // Mostly growing, then mostly shrinking.
      const uint64_t odds = step < steps / 2 ? 4 : 1;
      switch (random() % (odds + 2)) {
        case 0:
        case 1:
          counts.Erase(HashKey(each));
          expected.erase(each);
          break;
        case 2:
          counts.Set(HashKey(each), 7);
          expected[each] = 7;
          break;
        default:
          const auto n = static_cast<uint32_t>(1 + step % 3);
          expected[each] += n;
          ASSERT_EQ(counts.Add(HashKey(each), n), expected[each]);
      }
      ASSERT_EQ(counts.size(), static_cast<int64_t>(expected.size()));
      if (step % 2000 == 0) {
        ASSERT_EQ(All(counts), expected);
        for (uint64_t i = 0; i < keys; ++i) {
          const auto at = expected.find(key(i));
          ASSERT_EQ(counts.Get(HashKey(key(i))), at == expected.end() ? 0 : at->second);
        }
      }
    }
  }
}

TEST(KeyCounts, TakesAtMostSixteenBytesAKeyWhetherItGrowsOrShrinks) {
  KeyCounts counts(0);
  const int64_t n = 300000;
  for (int64_t key = 0; key < n; ++key) {
    counts.Add(HashKey(key), 1);
    if (key < 100) continue;
    ASSERT_LE(counts.bytes(), 16 * counts.size()) << counts.size();
  }
  for (int64_t key = 0; key < n; ++key) {
    counts.Erase(HashKey(key));
    if (counts.size() < 100) break;
    ASSERT_LE(counts.bytes(), 16 * counts.size()) << counts.size();
  }
}

// What is saved of it must be the same in every process.
TEST(KeyCounts, GivesKeysInTheOrderOfTheirHashesWhateverTheSecret) {
  std::vector<int64_t> keys[2];
  for (const bool is_secret : {false, true}) {
    KeyCounts counts(3, is_secret ? kHashSecret : kNone);
    for (const int64_t key : RandomIds(20000, 0, int64_t{1} << 60, 5)) {
      const uint64_t hash = HashKey(key);
      if (TopBits(hash, 3) == 5) counts.Add(hash, 1);
    }
    std::vector<uint32_t> values;
    for (int64_t at = 0; at >= 0;) {
      const size_t before = values.size();
      at = counts.Walk(at, 300, &keys[is_secret], &values);
      EXPECT_LE(values.size() - before, 300u);
    }
    EXPECT_EQ(static_cast<int64_t>(keys[is_secret].size()), counts.size());
  }
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_TRUE(std::is_sorted(keys[0].begin(), keys[0].end(), [](int64_t left, int64_t right) {
    return HashKey(left) < HashKey(right);
  }));
}

TEST(KeyCounts, CannotBeFlooded) {
  const auto seconds = [](int shift) {
    KeyCounts counts(0);
    const double begin = ThreadSeconds();
    for (uint64_t i = 0; i < 100000; ++i) counts.Add((7ULL << 40) | (i << shift), 1);
    return ThreadSeconds() - begin;
  };
  // Without a secret all belong in one place, and it is hundreds of times as long.
  EXPECT_LT(seconds(/*shift=*/0), 20 * seconds(/*shift=*/40) + 0.1);
}

}  // namespace keras_sparse::key_counts_test
