#include "ops/core/first_tier/hash_table_tier.h"

#include "tests/ops/core/support/check_store.h"
#include "tests/ops/core/support/check_tier.h"

namespace keras_sparse::hash_table_tier_test {

// Multiples of an odd number, so all different, with the extreme keys among them.
std::vector<int64_t> ManyKeys(int64_t n) {
  std::vector<int64_t> keys = ExtremeKeys();
  for (int64_t i = 2; i < n - 3; ++i) {
    keys.push_back(static_cast<int64_t>(static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15ULL));
  }
  return keys;
}

TEST(HashTableTier, KeepsTheContractOfAFirstTier) {
  const auto open = [](const RecordLayout& layout) {
    return std::make_unique<HashTableTier>(layout);
  };
  CheckTier(open, ManyKeys(20000), 20000);
  CheckTier(open, ExtremeKeys(), 5);
  CheckTier(open, {}, 0);
}

TEST(HashTableTier, HasNoKeyAtFirst) {
  const HashTableTier tier(RecordLayout(1, {}, false));
  for (const int64_t key : ExtremeKeys()) {
    EXPECT_EQ(Find(tier, key), nullptr);
  }
}

TEST(HashTableTier, TellsCreatedRowsFromFoundOnes) {
  HashTableTier tier(RecordLayout(1, {}, false));
  FindOrCreate(&tier, {5});
  const std::vector<int64_t> keys = {4, 5, 6};
  std::vector<float*> records(3);
  bool created[3];
  ASSERT_TRUE(IsOk(tier.FindOrCreate(keys.data(), 3, records.data(), created)));
  EXPECT_TRUE(created[0]);
  EXPECT_FALSE(created[1]);
  EXPECT_TRUE(created[2]);
}

TEST(HashTableTier, ErasesARowAndUsesItsPlaceAgain) {
  HashTableTier tier(RecordLayout(2, {}, false));
  const int64_t key = 77;
  const float* record = FindOrCreate(&tier, {key})[0];
  EXPECT_TRUE(tier.Erase(key));
  EXPECT_FALSE(tier.Erase(key));
  EXPECT_EQ(Find(tier, key), nullptr);
  EXPECT_EQ(tier.num_rows(), 0);
  EXPECT_EQ(FindOrCreate(&tier, {key})[0], record);
}

TEST(HashTableTier, ClearDropsAllRowsAndTheirMemory) {
  HashTableTier tier(RecordLayout(16, {}, false));
  const int64_t empty_bytes = tier.bytes();
  FindOrCreate(&tier, ManyKeys(10000));
  EXPECT_GT(tier.bytes(), 640000);
  std::unique_ptr<Initializer> initializer;
  ASSERT_TRUE(IsOk(Initializer::Create({}, &initializer)));
  ThreadExecutor executor(2);
  ASSERT_TRUE(IsOk(tier.Clear(*initializer, 0, &executor)));
  EXPECT_EQ(tier.num_rows(), 0);
  EXPECT_EQ(tier.bytes(), empty_bytes);
  EXPECT_EQ(Find(tier, 0), nullptr);
}

TEST(HashTableTier, LetsThreadsCreateRowsOfDifferentPartsAtOnce) {
  HashTableTier tier(RecordLayout(4, {}, false));
  const std::vector<int64_t> keys = ManyKeys(20000);
  std::vector<std::vector<int64_t>> parts(64);
  for (const int64_t key : keys)
    parts[TopBits(HashKey(key), tier.max_partition_bits())].push_back(key);
  ThreadExecutor executor(4);
  executor.ParallelFor(64, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const auto& part_keys = parts[static_cast<size_t>(part)];
      const auto records = FindOrCreate(&tier, part_keys);
      for (size_t i = 0; i < part_keys.size(); ++i) {
        std::fill_n(records[i], 4, static_cast<float>(part_keys[i] % 1000));
      }
    }
  });
  EXPECT_EQ(tier.num_rows(), 20000);
  for (const int64_t key : keys) {
    for (int i = 0; i < 4; ++i) ASSERT_EQ(Find(tier, key)[i], static_cast<float>(key % 1000));
  }
}

TEST(HashTableTier, EndsAWalkFromACursorItDoesNotHave) {
  HashTableTier tier(RecordLayout(1, {}, false));
  FindOrCreate(&tier, ManyKeys(100));
  std::vector<int64_t> keys;
  std::vector<const float*> records;
  EXPECT_EQ(tier.Walk((int64_t{63} << 32) + 5, 10, &keys, &records), -1);
  EXPECT_EQ(tier.Walk(int64_t{200} << 32, 10, &keys, &records), -1);
  EXPECT_TRUE(keys.empty());
}

TEST(HashTableTier, NeedsAtMostAQuarterMoreThanRecordsOfTypicalWidth) {
  // 64 floats and as many of an accumulator.
  HashTableTier tier(RecordLayout(64, {{"accumulator", false, 0}}, false));
  std::vector<int64_t> keys = ManyKeys(60000);
  for (size_t begin = 0; begin < keys.size(); begin += 1000) {
    FindOrCreate(&tier, {keys.begin() + static_cast<std::ptrdiff_t>(begin),
                         keys.begin() + static_cast<std::ptrdiff_t>(begin + 1000)});
    if (begin < 10000) continue;
    EXPECT_LE(tier.bytes(), tier.num_rows() * 512 * 125 / 100) << "at " << tier.num_rows();
  }
}

TEST(HashTableTier, GivesBackWhatWentBeyondTheLimitOnceRowsAreErased) {
  std::unique_ptr<FirstTier> tier;
  ASSERT_TRUE(IsOk(HashTableTier::Open(RecordLayout(8, {}, false), {20000, "LRU"}, &tier)));
  ThreadExecutor executor(2);
  tier->BeginUpdate();
  FindOrCreate(tier.get(), Range(0, 3000));
  const auto fail = [](const auto&, const auto&) { return ResourceExhausted("the disk is full"); };
  EXPECT_FALSE(tier->DemoteExcess(&executor, fail).ok());
  for (int64_t key = 100; key < 3000; ++key) EXPECT_TRUE(tier->Erase(key));  // evicted
  const auto put = [](const auto&, const auto&) { return Status::Ok(); };
  ASSERT_TRUE(IsOk(tier->DemoteExcess(&executor, put)));
  EXPECT_EQ(tier->num_rows(), 100);
  EXPECT_LE(tier->bytes(), 21000);
}

TEST(HashTableTier, KnowsTheRowsThatWereUsedOnceTheyAreLaidOutAnew) {
  for (const char* strategy : {"LRU", "LFU"}) {
    std::unique_ptr<FirstTier> tier;
    ASSERT_TRUE(IsOk(HashTableTier::Open(RecordLayout(8, {}, false), {20000, strategy}, &tier)));
    const auto use = [&tier](int64_t begin, int64_t end) {
      tier->BeginUpdate();
      FindOrCreate(tier.get(), Range(begin, end));
    };
    use(100, 150);
    for (int i = 0; i < 2; ++i) use(0, 50);
    ThreadExecutor executor(2);
    ASSERT_TRUE(IsOk(tier->Relayout(RecordLayout(8, {{"sum", false, 0.1f}}, false), 0, &executor)));
    std::vector<int64_t> left;
    const auto put = [&left](const std::vector<int64_t>& keys, const auto&) {
      left = keys;
      return Status::Ok();
    };
    for (int64_t begin = 1000; left.empty(); begin += 10) {
      ASSERT_LT(begin, 2000);
      use(begin, begin + 10);
      ASSERT_TRUE(IsOk(tier->DemoteExcess(&executor, put)));
    }
    for (const int64_t key : left) EXPECT_TRUE(key >= 100 && key < 150) << key;
  }
}

}  // namespace keras_sparse::hash_table_tier_test
