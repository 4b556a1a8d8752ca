#include "ops/core/staging/fingerprint.h"

#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::fingerprint_test {

Fingerprint OfText(const char* text) { return FingerprintOf(text, std::strlen(text)); }

TEST(Fingerprint, IsThatOfMurmurHash3) {
  // As its author's implementation gives them for x64, 128 bits, seed 0.
  const Fingerprint fox = OfText("The quick brown fox jumps over the lazy dog");
  EXPECT_EQ(fox.low, 0xe34bbc7bbc071b6cULL);
  EXPECT_EQ(fox.high, 0x7a433ca9c49a9347ULL);
  EXPECT_EQ(OfText("").low, 0u);
  const Fingerprint hello = OfText("Hello, world!");
  EXPECT_EQ(hello.low, 0xf1512dd1d2d665dfULL);
  EXPECT_EQ(hello.high, 0x2c326650a8f3c564ULL);
}

TEST(Fingerprint, TellsLookupsApartByAllThatDecidesThem) {
  const auto table = Open(Options(10, 1));
  const auto other = Open(Options(10, 1));
  const std::vector<int64_t> ids = {1, 2, 3};
  const std::vector<int64_t> splits = {0, 1, 3};
  const std::vector<int64_t> other_splits = {0, 2, 3};
  const std::vector<float> weights = {1, 1, 2};
  Bags bags;
  bags.num_ids = 3;
  bags.num_bags = 2;
  bags.row_splits = splits.data();
  bags.combiner = Combiner::kSum;
  const auto of = [&](const EmbeddingTable& of_table, const std::vector<int64_t>& of_ids,
                      const Bags& of_bags) {
    auto* named = const_cast<EmbeddingTable*>(&of_table);
    return FingerprintOf(std::vector<LookupRequest>{{named, of_ids.data(), of_bags, nullptr}});
  };
  Bags mean = bags;
  mean.combiner = Combiner::kMean;
  Bags shifted = bags;
  shifted.row_splits = other_splits.data();
  Bags weighted = bags;
  weighted.weights = weights.data();
  const std::vector<Fingerprint> all = {of(*table, ids, bags),       of(*other, ids, bags),
                                        of(*table, {1, 2, 4}, bags), of(*table, ids, mean),
                                        of(*table, ids, shifted),    of(*table, ids, weighted),
                                        of(*table, ids, NoBags(ids))};
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(all[i] == all[j]) << i << " and " << j;
  }
  EXPECT_TRUE(of(*table, std::vector<int64_t>(ids), bags) == all[0]);
}

// A stage has ids in memory, the step that comes for its rows has them on the GPU.
TEST(Fingerprint, IsThatOfAStepInAGpusMemory) {
  TableOptions options = Dynamic(2);
  options.storage.device = OpenDevice();
  const auto table = Open(options);
  const auto in_memory = Open(Dynamic(2));
  const std::vector<int64_t> ids = {7, -7, 7};
  const std::vector<int64_t> splits = {0, 1, 3};
  const std::vector<float> weights = {1, 0, -2};
  for (const Bags& bags : {NoBags(ids), BagsOf(Combiner::kSum, splits, weights)}) {
    DeviceCopies copies(*table);
    Fingerprint on_gpu;
    ASSERT_TRUE(IsOk(FingerprintOfStep(
        {{table.get(), copies.Of(ids.data(), 3), copies.Of(bags), nullptr}}, &on_gpu)));
    EXPECT_TRUE(on_gpu == FingerprintOf({{table.get(), ids.data(), bags, nullptr}}));
    Fingerprint of_memory;
    const std::vector<LookupRequest> lookup = {{in_memory.get(), ids.data(), bags, nullptr}};
    ASSERT_TRUE(IsOk(FingerprintOfStep(lookup, &of_memory)));
    EXPECT_TRUE(of_memory == FingerprintOf(lookup));
    EXPECT_FALSE(of_memory == on_gpu);
  }
}

}  // namespace keras_sparse::fingerprint_test
