#include "ops/core/ids/bags_hash.h"

#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/device/table_on_device.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::bags_hash_test {

std::vector<unsigned long long> Words(const BagsHash& hash) {
  return {hash.ids.low,         hash.ids.high,    hash.row_splits.low,
          hash.row_splits.high, hash.weights.low, hash.weights.high};
}

int64_t Multiple(uint64_t number) { return static_cast<int64_t>(number * 0x9e3779b97f4a7c15ULL); }

TEST(BagsHash, IsThatOfTheSameListsInAGpusMemory) {
  const auto device = OpenDevice();
  // More than one warp's numbers, few, one and none.
  const std::vector<int64_t> many = RandomIds(5000, INT64_MIN, INT64_MAX, 1);
  const std::vector<float> weights = RandomFloats(5000, 1);
  const std::vector<int64_t> splits = {0, 3, 3, 4990, 5000};
  const std::vector<int64_t> few = {-1, 0, 7};
  const std::vector<int64_t> one = {5};
  const std::vector<int64_t> none;
  const std::vector<int64_t> no_splits = {0};
  std::vector<BagsToHash> lists = {{many.data(), BagsOf(Combiner::kMean, splits, weights)},
                                   {few.data(), NoBags(few)},
                                   {one.data(), NoBags(one)},
                                   {none.data(), NoBags(none)},
                                   {none.data(), BagsOf(Combiner::kSum, no_splits)}};
  InAnyOrder([&] {
    std::vector<std::unique_ptr<BagsOnDevice>> copies;
    std::vector<BagsToHash> on_device;
    for (const BagsToHash& each : lists) {
      const std::vector<int64_t> ids(each.ids, each.ids + each.bags.num_ids);
      copies.push_back(std::make_unique<BagsOnDevice>(device.get(), ids, each.bags));
      on_device.push_back({copies.back()->ids(), copies.back()->bags()});
    }
    std::vector<BagsHash> hashes;
    ASSERT_TRUE(IsOk(cuda_impl::HashOf(on_device, device.get(), &hashes)));
    for (size_t i = 0; i < lists.size(); ++i) {
      EXPECT_EQ(Words(hashes[i]), Words(HashOf(lists[i]))) << i;
    }
  });
}

TEST(BagsHash, TellsWhatStandsWhere) {
  const auto of = [](const std::vector<int64_t>& ids) {
    return Words(HashOf({ids.data(), NoBags(ids)}));
  };
  EXPECT_EQ(of({1, 2, 3}), of({1, 2, 3}));
  std::vector<std::vector<unsigned long long>> all;
  for (const std::vector<int64_t>& ids :
       std::vector<std::vector<int64_t>>{{},
                                         {0},
                                         {0, 0},
                                         {1, 2},
                                         {2, 1},
                                         {1, 2, 0},
                                         {0, 1, 2},
                                         {1, 1},
                                         {2, 2},
                                         {-1, 2},
                                         // Multiples of a number that hashes are made by.
                                         {Multiple(5), Multiple(5)},
                                         {Multiple(6), Multiple(4)},
                                         {Multiple(4), Multiple(6)}}) {
    all.push_back(of(ids));
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      EXPECT_NE(all[i][0], all.back()[0]) << i << " and " << all.size() - 1;
      EXPECT_NE(all[i][1], all.back()[1]) << i << " and " << all.size() - 1;
    }
  }
}

}  // namespace keras_sparse::bags_hash_test
