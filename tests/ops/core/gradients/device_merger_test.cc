#include "ops/core/gradients/device_merger.h"

#include "tests/ops/core/device/table_on_device.h"
#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::device_merger_test {

using cuda_impl::DeviceMerger;

// By id, the bits of its sum and of its further entries.
using Sums = std::map<int64_t, std::vector<uint32_t>>;

Sums SumsOf(const std::vector<int64_t>& ids, const std::vector<float>& values, int64_t dim) {
  Sums sums;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i) * dim;
    for (const uint32_t bits : Bits({begin, begin + dim})) sums[ids[i]].push_back(bits);
  }
  return sums;
}

Sums MergeOnCpu(const OutputGradient& gradient) {
  std::unique_ptr<GradientMerger> merger;
  EXPECT_TRUE(IsOk(GradientMerger::Create({gradient}, Inline(), &merger)));
  std::vector<int64_t> ids(static_cast<size_t>(merger->num_entries(0)));
  std::vector<float> values(ids.size() * static_cast<size_t>(gradient.dim));
  merger->Write({{ids.data(), values.data()}}, Inline());
  return SumsOf(ids, values, gradient.dim);
}

// A gradient on the CPU and on a GPU.
struct Case {
  Case(Device* device, const std::vector<int64_t>& host_ids, const Bags& host_bags, int64_t dim,
       FloatType type = FloatType::kFloat32, int64_t stride = 0)
      : ids(host_ids),
        bags(host_bags),
        placed(Placed(type, GradientsWithZeros(bags.num_bags * dim), dim, 0,
                      stride == 0 ? dim : stride)),
        grads(OnDevice(device, placed)),
        lists(device, ids, bags),
        row_stride(stride == 0 ? dim : stride),
        cpu{ids.data(), bags, GradientRows(placed.data(), row_stride, type), dim},
        gpu{lists.ids(), lists.bags(), GradientRows(grads.data(), row_stride, type), dim} {}

  std::vector<int64_t> ids;
  Bags bags;
  std::vector<char> placed;
  DeviceArray<char> grads;
  BagsOnDevice lists;
  int64_t row_stride;
  OutputGradient cpu;
  OutputGradient gpu;
};

void ExpectThoseOfTheCpu(Device* device, const std::vector<std::unique_ptr<Case>>& cases) {
  std::vector<OutputGradient> gradients;
  for (const auto& each : cases) gradients.push_back(each->gpu);
  DeviceMerger merger;
  ASSERT_TRUE(IsOk(DeviceMerger::Create(gradients, device, &merger)));
  std::vector<DeviceArray<int64_t>> ids(cases.size());
  std::vector<DeviceArray<float>> values(cases.size());
  std::vector<GradientMerger::Result> results;
  for (size_t i = 0; i < cases.size(); ++i) {
    const int64_t n = merger.num_entries(i);
    ASSERT_TRUE(IsOk(DeviceArray<int64_t>::Allocate(device, n, &ids[i])));
    ASSERT_TRUE(IsOk(DeviceArray<float>::Allocate(device, n * gradients[i].dim, &values[i])));
    results.push_back({ids[i].data(), values[i].data()});
  }
  ASSERT_TRUE(IsOk(merger.Write(results)));
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(SumsOf(Values(ids[i]), Values(values[i]), gradients[i].dim),
              MergeOnCpu(cases[i]->cpu));
  }
}

TEST(DeviceMerger, GivesTheSumsOfTheCpu) {
  const std::vector<int64_t> splits = RandomSplits(60, 5, 1);
  const int64_t n = splits.back();
  std::vector<int64_t> ids = RandomIds(n, -9, 9, 2);
  const std::vector<int64_t> extreme = ExtremeKeys();
  std::copy(extreme.begin(), extreme.end(), ids.begin());
  const std::vector<float> weights = RandomFloats(n, 3);
  InAnyOrder([&] {
    const auto device = OpenDevice();
    std::vector<std::unique_ptr<Case>> cases;
    const auto add = [&](const Bags& bags, int64_t dim, FloatType type, int64_t stride) {
      cases.push_back(std::make_unique<Case>(device.get(), ids, bags, dim, type, stride));
      for (OutputGradient* gradient : {&cases.back()->cpu, &cases.back()->gpu}) {
        gradient->max_entries = 1 + static_cast<int64_t>(cases.size()) % 4;
      }
    };
    for (const int64_t dim : {1, 4, 33, 64}) {
      add(NoBags(ids), dim, FloatType::kFloat32, 0);
      add(BagsOf(Combiner::kSum, splits), dim, FloatType::kFloat16, dim + 4);
      add(BagsOf(Combiner::kMean, splits, weights), dim, FloatType::kFloat32, dim + 3);
      add(BagsOf(Combiner::kSqrtN, splits, weights), dim, FloatType::kBFloat16, 0);
    }
    ExpectThoseOfTheCpu(device.get(), cases);
  });
}

TEST(DeviceMerger, SumsRunsOfFrequentIdsAsTheCpuDoes) {
  const std::vector<int64_t> ids = FrequentIds();
  const auto device = OpenDevice();
  std::vector<std::unique_ptr<Case>> cases;
  for (const int64_t dim : {3, 8}) {
    cases.push_back(std::make_unique<Case>(device.get(), ids, NoBags(ids), dim));
  }
  ExpectThoseOfTheCpu(device.get(), cases);
}

TEST(DeviceMerger, TakesNothingAtAll) {
  const auto device = OpenDevice();
  std::vector<std::unique_ptr<Case>> cases;
  cases.push_back(std::make_unique<Case>(device.get(), std::vector<int64_t>(), Bags(), 4));
  ExpectThoseOfTheCpu(device.get(), cases);
  DeviceMerger merger;
  EXPECT_TRUE(IsOk(DeviceMerger::Create({}, device.get(), &merger)));
}

TEST(DeviceMerger, RefusesSplitsThatDoNotRise) {
  const auto device = OpenDevice();
  const std::vector<int64_t> ids = {1, 2, 3};
  const std::vector<int64_t> splits = {0, 2, 1, 3};
  const Case falling(device.get(), ids, BagsOf(Combiner::kSum, splits), 4);
  DeviceMerger merger;
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                        "`row_splits` must rise from 0 to the number of ids. Received: a bag that "
                        "does not, at row_splits[1]",
                        DeviceMerger::Create({falling.gpu}, device.get(), &merger)));
  const Case none(device.get(), ids, BagsOf(Combiner::kSum, {3}), 4);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                        "the number of ids, 3. Received: row_splits of no bags",
                        DeviceMerger::Create({none.gpu}, device.get(), &merger)));
}

}  // namespace keras_sparse::device_merger_test
