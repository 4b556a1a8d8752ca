// What a policy lets go from tiers is what it lets go from memory alone, bit for bit.
#include <tuple>
#include <utility>

#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::tiered_eviction_test {

// What rows are evicted by.
enum class By { kSteps, kSeconds, kWeight };

// Training with evictions, over the tiers and in memory alone. By seconds, of which one passes in
// each step, these are the rows that go by steps.
void CheckEviction(const StorageOptions& storage, const std::string& name, By by) {
  const RuleOptions rule = name == "adagrad" ? AdagradRule(0.1) : AdamRule(name);
  const TempFolder folder;
  TableOptions options = Aging(Dynamic(7));
  const auto plain = OpenWithRule(options, rule);
  if (by == By::kSeconds) options = AgingInSeconds(Dynamic(7));
  seconds_of_test = UINT32_MAX - 20;
  options.storage = storage;
  options.storage.path = folder / "rows";
  std::unique_ptr<EmbeddingTable> tiered;
  const Status opened = EmbeddingTable::Open(options, Inline(), &tiered);
  if (opened.code() == StatusCode::kInvalidArgument) GTEST_SKIP() << "not in this build";
  ASSERT_TRUE(IsOk(opened));
  ASSERT_TRUE(IsOk(SetRule(tiered.get(), rule, Inline())));
  ThreadExecutor executor(3);
  for (int64_t step = 1; step <= 40; ++step) {
    const auto seed = static_cast<uint64_t>(step);
    ++seconds_of_test;
    const std::vector<int64_t> ids = RandomIds(300, -1000, 1000, seed);
    (void)Lookup(tiered.get(), ids, &executor);  // stages what is below
    if (step % 4 == 0) {
      const EvictionOptions policy = by == By::kWeight ? WeightBelow(1.2) : OlderThan(8);
      const int64_t num_evicted = Evict(plain.get(), policy);
      EXPECT_GT(num_evicted, step < 12 ? -1 : 0);
      // The second of the next step has begun.
      const EvictionOptions theirs = by == By::kSeconds ? OlderThanSeconds(9) : policy;
      ASSERT_EQ(Evict(tiered.get(), theirs, &executor), num_evicted);
      ASSERT_EQ(NumRowsOf(*tiered), NumRowsOf(*plain));
      ASSERT_EQ(Bits(Lookup(tiered.get(), ids, &executor)), Bits(Lookup(plain.get(), ids)));
    }
    for (EmbeddingTable* table : {tiered.get(), plain.get()}) {
      ASSERT_TRUE(IsOk(Apply(
          table, name == "adagrad" ? std::vector<float>{0.1f} : std::vector<float>{0.1f, 0.1f}, ids,
          RandomFloats(2100, seed), &executor)));
    }
    if (step == 20) {
      for (EmbeddingTable* table : {tiered.get(), plain.get()}) {
        ASSERT_TRUE(IsOk(SetRule(table, rule, &executor)));
      }
    }
    ASSERT_EQ(Ages(*tiered), Ages(*plain));
  }
  EXPECT_EQ(ExportAll(*tiered), ExportAll(*plain));
  EXPECT_EQ(StatsOf(*tiered).evicted_rows, StatsOf(*plain).evicted_rows);
  EXPECT_EQ(StatsOf(*tiered).created_rows, StatsOf(*plain).created_rows);
}

using Parameters = std::tuple<std::string, int64_t, By>;  // rule, first tier's bytes

class TieredEviction : public ::testing::TestWithParam<Parameters> {};

TEST_P(TieredEviction, IsThatFromMemoryBitForBit) {
  const auto& [name, first_bytes, by] = GetParam();
  CheckEviction({{"ssdhash"}, {first_bytes, int64_t{1} << 30}, "", "LRU"}, name, by);
}

INSTANTIATE_TEST_SUITE_P(Tables, TieredEviction,
                         ::testing::Combine(::testing::Values("adagrad", "adam", "lazy_adam"),
                                            ::testing::Values(1, 40000),
                                            ::testing::Values(By::kSteps, By::kWeight)),
                         [](const auto& param) {
                           return std::get<0>(param.param) + "_" +
                                  std::to_string(std::get<1>(param.param)) +
                                  (std::get<2>(param.param) == By::kSteps ? "_ByAge" : "_ByWeight");
                         });

// Names and sizes of the lower tiers.
using Stack = std::pair<std::vector<std::string>, std::vector<int64_t>>;

class StackEviction : public ::testing::TestWithParam<Stack> {};

TEST_P(StackEviction, IsThatFromMemoryBitForBit) {
  StorageOptions storage = {GetParam().first, {8000}, "", "LFU"};
  for (const int64_t size : GetParam().second) storage.sizes.push_back(size);
  CheckEviction(storage, "adam", By::kSeconds);
}

// Middle tiers that hold some of the rows.
INSTANTIATE_TEST_SUITE_P(Stacks, StackEviction,
                         ::testing::Values(Stack{{"pmem"}, {4 << 20}},
                                           Stack{{"leveldb"}, {1 << 30}},
                                           Stack{{"pmem", "ssdhash"}, {40000, 1 << 30}},
                                           Stack{{"pmem", "leveldb"}, {40000, 1 << 30}}),
                         [](const auto& param) {
                           std::string name;
                           for (const std::string& tier : param.param.first) name += tier;
                           return name;
                         });

TEST(HbmEviction, IsThatFromMemoryBitForBit) {
  CheckEviction(HbmOver({"dram", "ssdhash"}, 8000, 40000), "adam", By::kSeconds);
}

}  // namespace keras_sparse::tiered_eviction_test
