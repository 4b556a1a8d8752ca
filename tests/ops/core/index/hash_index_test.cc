#include "ops/core/index/hash_index.h"

#include <algorithm>
#include <unordered_map>

#include "ops/core/base/hash.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse::hash_index_test {

void Insert(HashIndex* index, int64_t key, uint32_t row) { index->Insert(HashKey(key), key, row); }
uint32_t Find(const HashIndex& index, int64_t key) { return index.Find(HashKey(key), key); }
uint32_t Erase(HashIndex* index, int64_t key) { return index->Erase(HashKey(key), key); }

// Different for each i below 2^32, and spread over all of 32 bits.
uint64_t LowBits(uint64_t i) { return static_cast<uint32_t>(i * 0x9E3779B1u); }

// What a walk gives, checked for repeats.
std::unordered_map<int64_t, uint32_t> WalkAll(const HashIndex& index) {
  std::vector<int64_t> keys;
  std::vector<uint32_t> rows;
  for (int64_t at = 0; at >= 0;) at = index.AppendSegment(at, &keys, &rows);
  EXPECT_EQ(keys.size(), rows.size());
  std::unordered_map<int64_t, uint32_t> all;
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(all.emplace(keys[i], rows[i]).second) << keys[i] << " came twice";
  }
  return all;
}

TEST(HashKey, IsUndoneByItsInverse) {
  for (const int64_t key : RandomIds(1000, std::numeric_limits<int64_t>::min(),
                                     std::numeric_limits<int64_t>::max(), 1)) {
    EXPECT_EQ(KeyOfHash(HashKey(key)), key);
  }
}

TEST(HashIndex, HasEveryInt64AsAKey) {
  HashIndex index(0);
  for (const int64_t key : ExtremeKeys()) EXPECT_EQ(Find(index, key), HashIndex::kNoRow);
  uint32_t row = 0;
  for (const int64_t key : ExtremeKeys()) Insert(&index, key, row++);
  row = 0;
  for (const int64_t key : ExtremeKeys()) EXPECT_EQ(Find(index, key), row++);
  EXPECT_EQ(index.size(), 5);
  EXPECT_EQ(Erase(&index, 0), 2u);
  EXPECT_EQ(Erase(&index, 0), HashIndex::kNoRow);
  EXPECT_EQ(index.size(), 4);
}

TEST(HashIndex, AgreesWithAMapOverMillionsOfOperations) {
  for (const int64_t range : {50, 3000, 200000}) {
    HashIndex index(0);
    std::unordered_map<int64_t, uint32_t> reference;
    std::mt19937_64 random(static_cast<uint64_t>(range));
    for (uint32_t step = 0; step < 700000; ++step) {
      const auto draw = random();
      // The share of erasures swings, so that the index fills and empties again and again.
      const bool erases = draw % 100 < ((step >> 16) % 2 == 0 ? 20 : 70);
      const auto key = static_cast<int64_t>((draw >> 8) % static_cast<uint64_t>(range)) - range / 2;
      const auto at = reference.find(key);
      const uint32_t row = at == reference.end() ? HashIndex::kNoRow : at->second;
      if (erases) {
        ASSERT_EQ(Erase(&index, key), row);
        if (at != reference.end()) reference.erase(at);
      } else {
        ASSERT_EQ(Find(index, key), row);
        if (at != reference.end()) continue;
        Insert(&index, key, step);
        reference.emplace(key, step);
      }
    }
    EXPECT_EQ(index.size(), static_cast<int64_t>(reference.size()));
    EXPECT_EQ(WalkAll(index), reference);
  }
}

TEST(HashIndex, EndsASearchAfterEveryBucketHasOverflowedOnce) {
  // Keys made for one place, erased, and made for the next, until each bucket was full once.
  HashIndex index(0);
  Insert(&index, KeyOfHash(1), 0);
  for (uint64_t place = 0; place < 64; ++place) {
    std::vector<int64_t> keys;
    for (uint64_t i = 0; i < 7; ++i) keys.push_back(KeyOfHash((i << 40) | (place << 26)));
    for (const int64_t key : keys) {
      if (Find(index, key) == HashIndex::kNoRow) Insert(&index, key, 1);
    }
    for (const int64_t key : keys) Erase(&index, key);
  }
  EXPECT_EQ(Find(index, KeyOfHash(2)), HashIndex::kNoRow);
  EXPECT_EQ(Find(index, KeyOfHash(1)), 0u);
}

TEST(HashIndex, KeepsItsSizeWhileKeysComeAndGo) {
  HashIndex index(0);
  for (int64_t key = 0; key < 20000; ++key) Insert(&index, key, 1);
  const int64_t bytes = index.bytes();
  for (int64_t key = 20000; key < 600000; ++key) {
    ASSERT_EQ(Erase(&index, key - 20000), 1u);
    Insert(&index, key, 1);
  }
  EXPECT_EQ(index.size(), 20000);
  EXPECT_LT(index.bytes(), 2 * bytes);
}

TEST(HashIndex, GivesMemoryBackAsItEmpties) {
  HashIndex index(0);
  for (int64_t key = 0; key < 200000; ++key) Insert(&index, key, 1);
  const int64_t bytes = index.bytes();
  for (int64_t key = 0; key < 200000; ++key) Erase(&index, key);
  EXPECT_EQ(WalkAll(index).size(), 0u);
  for (int64_t key = 200000; key < 1400000; ++key) {
    Insert(&index, key, 1);
    ASSERT_EQ(Erase(&index, key), 1u);
  }
  EXPECT_LT(index.bytes(), bytes / 4);
}

TEST(HashIndex, GivesMemoryBackWhenItHasLostMostOfItsKeys) {
  HashIndex index(0);
  for (int64_t key = 0; key < 200000; ++key) Insert(&index, key, static_cast<uint32_t>(key));
  const int64_t bytes = index.bytes();
  for (int64_t key = 0; key < 200000; ++key) {
    if (key % 100 == 0) continue;
    ASSERT_EQ(Erase(&index, key), key);
  }
  for (int64_t key = 0; key < 200000; key += 100) ASSERT_EQ(Find(index, key), key);
  EXPECT_LT(index.bytes(), bytes / 8);
}

TEST(HashIndex, TakesTheKeysItExpectsWithoutGrowing) {
  for (const int64_t n : {0, 1, 5, 1500, 1600, 100000}) {
    HashIndex index(6, n);
    const int64_t bytes = index.bytes();
    for (int64_t key = 0; key < n; ++key) {
      Insert(&index, KeyOfHash(HashKey(key) >> 6), static_cast<uint32_t>(key));
    }
    EXPECT_LT(index.bytes(), bytes * 11 / 10 + 1) << n;
    EXPECT_LT(bytes, 23 * n + 200) << n;
    for (int64_t key = 0; key < n; ++key) {
      ASSERT_EQ(Find(index, KeyOfHash(HashKey(key) >> 6)), static_cast<uint32_t>(key));
    }
    for (int64_t key = n; key < 2 * n + 9; ++key) {
      Insert(&index, KeyOfHash(HashKey(key) >> 6), static_cast<uint32_t>(key));
    }
    EXPECT_EQ(static_cast<int64_t>(WalkAll(index).size()), 2 * n + 9);
  }
}

TEST(HashIndex, FindsManyKeysAsItFindsEach) {
  HashIndex index(0);
  for (int64_t key = 0; key < 5000; ++key) Insert(&index, 3 * key, static_cast<uint32_t>(key));
  for (const int64_t n : {0, 1, 15, 16, 17, 4000}) {
    const std::vector<int64_t> keys = RandomIds(n, 0, 15000, static_cast<uint64_t>(n));
    const auto found = std::make_unique<bool[]>(keys.size());
    index.Contains(keys.data(), n, found.get());
    for (size_t i = 0; i < keys.size(); ++i)
      EXPECT_EQ(found[i], keys[i] % 3 == 0 && keys[i] < 15000);
  }
}

TEST(HashIndex, UsesMostOfItsSlotsAtAnySize) {
  HashIndex index(0);
  for (int64_t key = 0; key < 600000; ++key) {
    Insert(&index, key, 0);
    // A slot is 12.8 bytes; 60 % of them in use make 21.4 bytes a key.
    if (key < 20000 || key % 1000 != 0) continue;
    ASSERT_LT(index.bytes(), key * 22) << "at " << key;
  }
}

TEST(HashIndex, GrowsByAFewThousandKeysAtATime) {
  HashIndex index(6);
  int64_t bytes = index.bytes();
  for (int64_t key = 0; key < 600000; ++key) {
    Insert(&index, KeyOfHash(HashKey(key) >> 6), 0);  // all of shard 0
    // Two segments of 512 buckets and the directory's next size.
    ASSERT_LT(index.bytes() - bytes, 192 << 10) << "at " << key;
    bytes = index.bytes();
  }
  EXPECT_EQ(index.size(), 600000);
}

TEST(HashIndex, TakesKeysChosenToShareALongPrefixOfTheirHash) {
  HashIndex index(6);
  const auto key = [](uint64_t i) { return KeyOfHash((0x01234567ULL << 32) | LowBits(i)); };
  for (uint64_t i = 0; i < 100000; ++i) Insert(&index, key(i), static_cast<uint32_t>(i));
  for (uint64_t i = 0; i < 100000; ++i) ASSERT_EQ(Find(index, key(i)), i);
  EXPECT_EQ(WalkAll(index).size(), 100000u);
  EXPECT_LT(index.bytes(), 100000 * 32);
}

TEST(HashIndex, TakesKeysChosenToStartInOneBucketAtTheCostOfAnyOthers) {
  // Low hash bits all the same, high ones spread over the directory; and the other way round.
  const auto seconds = [](const auto& key) {
    HashIndex index(0);
    const double begin = ThreadSeconds();
    for (uint64_t i = 0; i < 100000; ++i) Insert(&index, key(i), static_cast<uint32_t>(i));
    for (uint64_t i = 0; i < 100000; ++i) EXPECT_EQ(Find(index, key(i)), i);
    for (uint64_t i = 100000; i < 105000; ++i) EXPECT_EQ(Find(index, key(i)), HashIndex::kNoRow);
    EXPECT_LT(index.bytes(), 100000 * 32);
    return ThreadSeconds() - begin;
  };
  const double any = seconds([](uint64_t i) { return static_cast<int64_t>(i); });
  // Without a secret it is hundreds of times as long.
  EXPECT_LT(seconds([](uint64_t i) { return KeyOfHash(LowBits(i) << 32); }), 20 * any + 0.1);
  EXPECT_LT(seconds([](uint64_t i) { return KeyOfHash(7ULL << 40 | i << 20); }), 20 * any + 0.1);
}

TEST(HashIndex, GivesKeysInTheOrderOfTheirHashes) {
  HashIndex index(0);
  for (const int64_t key : RandomIds(50000, 0, int64_t{1} << 60, 5)) {
    (void)index.Exchange(HashKey(key), key, 0);
  }
  std::vector<int64_t> keys;
  std::vector<uint32_t> rows;
  (void)index.AppendSegments(0, index.size(), &keys, &rows);
  ASSERT_EQ(static_cast<int64_t>(keys.size()), index.size());
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end(), [](int64_t left, int64_t right) {
    return HashKey(left) < HashKey(right);
  }));
}

TEST(HashIndex, SplitsAPrefixCrowdOnceOtherKeysPayForTheDirectory) {
  HashIndex index(0);
  const uint64_t prefix = 0xabcdULL << 48;
  std::vector<int64_t> keys;
  for (uint64_t i = 0; i < 20000; ++i) keys.push_back(KeyOfHash(prefix | (i << 20)));
  for (int64_t key = 0; key < 200000; ++key) keys.push_back(key);
  for (size_t i = 0; i < keys.size(); ++i) Insert(&index, keys[i], static_cast<uint32_t>(i));
  for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(Find(index, keys[i]), i);
  EXPECT_EQ(WalkAll(index).size(), keys.size());
}

TEST(HashIndex, EndsAWalkFromAPositionItDoesNotHave) {
  HashIndex index(0);
  Insert(&index, 1, 1);
  std::vector<int64_t> keys;
  std::vector<uint32_t> rows;
  EXPECT_EQ(index.AppendSegment(1, &keys, &rows), -1);
  EXPECT_EQ(index.AppendSegment(int64_t{1} << 40, &keys, &rows), -1);
  EXPECT_TRUE(keys.empty());
}

}  // namespace keras_sparse::hash_index_test
