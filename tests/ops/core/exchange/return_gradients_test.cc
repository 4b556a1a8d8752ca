#include "ops/core/exchange/return_gradients.h"

#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/exchange/exchange_testing.h"

namespace keras_sparse::return_gradients_test {

// What goes back for the ids of the first input, whose gradients have one number in all columns: by
// the CPU and by a GPU.
std::vector<std::vector<float>> Returned(const std::vector<Ids>& inputs,
                                         const std::vector<float>& numbers, FloatType type) {
  constexpr int64_t kDim = 4;
  Rank rank({{10, kDim, {0}, {kDim}}}, 1, 0);
  std::vector<std::vector<Word>> blocks;
  EXPECT_TRUE(IsOk(rank.Request(inputs, Inline(), &blocks)));
  const std::vector<CombinedInput> combined = rank.combined();
  const ResponseRows rows(rank.layout(), rank.reply_rows().data());
  const auto device = OpenDevice();
  std::vector<std::vector<char>> bytes;
  std::vector<DeviceArray<char>> on_device;
  std::vector<GradientRows> grads, device_grads;
  for (const CombinedInput& input : combined) {
    std::vector<float> of_input(static_cast<size_t>(input.bags.num_bags * kDim), 1);
    for (size_t i = 0; bytes.empty() && i < of_input.size(); ++i) of_input[i] = numbers[i / kDim];
    bytes.push_back(Placed(type, of_input, kDim, 0, kDim));
    on_device.push_back(OnDevice(device.get(), bytes.back()));
    device_grads.emplace_back(on_device.back().data(), kDim, type);
  }
  for (const std::vector<char>& each : bytes) grads.emplace_back(each.data(), kDim, type);
  std::vector<std::vector<float>> returned(2);  // by the CPU and by the GPU
  returned[0].resize(static_cast<size_t>(rows.num_floats()[0]));
  const auto of_gpu = OnDevice(device.get(), returned[0]);
  const auto columns = [&rows](float* block) {
    return rows.GradientColumns({block}, FloatType::kFloat32);
  };
  ReturnGradients(rank.layout(), rows, combined, grads, 0.5f, columns(returned[0].data()),
                  Inline());
  EXPECT_TRUE(IsOk(cuda_impl::ReturnGradients(rank.layout(), rows, combined, device_grads, 0.5f,
                                              columns(of_gpu.data()), device.get())));
  returned[1] = Values(of_gpu);
  std::vector<std::vector<float>> of_ids(2);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t at = combined[0].positions[i] * kDim;
    for (size_t place = 0; place < 2; ++place) of_ids[place].push_back(returned[place][at]);
  }
  return of_ids;
}

TEST(ReturnGradients, KeepsTheSignOfZerosWhateverIsSummedBesideThem) {
  const Ids first = {0, {1, 2, 2, 3, 3, 4}, Combiner::kNone, {}, {}};
  const std::vector<float> zeros = {-0.0f, -0.0f, -0.0f, 0.0f, -0.0f, 0.0f};
  const std::vector<uint32_t> expected = Bits({-0.0f, -0.0f, -0.0f, 0.0f, 0.0f, 0.0f});
  const std::vector<std::vector<Ids>> others = {
      {},
      {{0, {}, Combiner::kMean, {0}, {}}},              // no bags
      {{0, {}, Combiner::kSum, {0}, {}}},               //
      {{0, {}, Combiner::kMean, {0, 0, 0}, {}}},        // bags without ids
      {{0, {7}, Combiner::kMean, {0, 0, 1}, {}}},       // of another row
      {{0, {7, 8}, Combiner::kSqrtN, {0, 2}, {2, 3}}},  //
      {{0, {7}, Combiner::kSum, {0, 1}, {}}, {0, {}, Combiner::kMean, {0}, {}}},
  };
  for (const FloatType type : kFloatTypes) {
    for (size_t i = 0; i < others.size(); ++i) {
      SCOPED_TRACE(i);
      std::vector<Ids> inputs = {first};
      inputs.insert(inputs.end(), others[i].begin(), others[i].end());
      for (const auto& of_place : Returned(inputs, zeros, type)) {
        EXPECT_EQ(Bits(of_place), expected);
      }
    }
  }
}

TEST(ReturnGradients, SumsRunsOverInputsThatShareRows) {
  const Ids first = {0, FrequentIds(), Combiner::kNone, {}, {}};
  const auto n = static_cast<int64_t>(first.ids.size());
  const Ids second = {0,
                      {first.ids.rbegin(), first.ids.rend()},
                      Combiner::kMean,
                      {0, n / 3, n},
                      RandomFloats(n, 3)};
  const std::vector<float> ones = {1, 1};
  for (const FloatType type : kFloatTypes) {
    const std::vector<float> numbers = Rounded(type, GradientsWithZeros(n));
    auto expected = MergedBits({{first.ids.data(), first.request().bags, numbers.data(), 1},
                                {second.ids.data(), second.request().bags, ones.data(), 1}});
    for (const auto& of_place : Returned({first, second}, numbers, type)) {
      for (size_t i = 0; i < of_place.size(); ++i) {
        ASSERT_EQ(Bits({2 * of_place[i]}), expected[first.ids[i]]) << "id " << first.ids[i];
      }
    }
  }
}

}  // namespace keras_sparse::return_gradients_test
