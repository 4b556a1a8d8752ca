
#include "ops/core/exchange/device_blocks.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/exchange/draw_exchange.h"

namespace keras_sparse::exchange_on_device_test {

using Bytes = std::vector<char>;
using Columns = std::vector<std::vector<ResponseColumns>>;

// Blocks of floats of a type, in the CPU's memory as floats and in the GPU's as they are.
struct Twins {
  std::vector<std::vector<float>> floats;
  std::vector<DeviceArray<char>> on_device;

  Twins(const std::vector<int64_t>& num_floats, FloatType type, uint64_t seed, Device* device) {
    for (const int64_t n : num_floats) {
      floats.push_back(Rounded(type, RandomFloats(n, ++seed)));
      on_device.push_back(OnDevice(device, Placed(type, floats.back(), 1, 0, 1)));
    }
  }
  std::vector<void*> blocks() const {
    std::vector<void*> blocks;
    for (const auto& block : on_device) blocks.push_back(block.data());
    return blocks;
  }
};

// Replies of random rows and sums, in the CPU's memory and in the GPU's.
struct TwinReplies {
  std::vector<std::vector<Word>> words;
  std::vector<DeviceArray<Word>> on_device;
  Columns columns;
  Columns device_columns;

  TwinReplies(const ResponseRows& rows, FloatType wire_type, uint64_t seed, Device* device) {
    for (const int64_t n : rows.ReplyWords(wire_type)) words.emplace_back(static_cast<size_t>(n));
    columns = rows.ReplyColumns(VoidPointers(&words), wire_type);
    for (size_t t = 0; t < columns.size(); ++t) {
      for (const ResponseColumns& each : columns[t]) {
        for (size_t r = 0; r < each.runs.size(); ++r) {
          const ResponseRun& run = each.runs[r];
          const bool is_last = r + 1 == each.runs.size();
          const int64_t end = is_last ? rows.num_rows(t) : each.runs[r + 1].first_row;
          const int64_t n = (end - run.first_row) * each.num_columns;
          WriteFloats(run.type, RandomFloats(n, ++seed).data(), n, run.data);
        }
      }
    }
    std::vector<void*> blocks;
    for (const auto& block : words) {
      on_device.push_back(OnDevice(device, block));
      blocks.push_back(on_device.back().data());
    }
    device_columns = rows.ReplyColumns(blocks, wire_type);
  }
};

// One rank's inputs and the replies to them.
class ExchangeOnDevice {
 public:
  ExchangeOnDevice(const std::vector<PlacedTable>& tables, int64_t num_ranks,
                   const std::vector<Ids>& inputs, FloatType type, uint64_t seed)
      : rank_(tables, num_ranks, 0, type),
        inputs_(MakeInputs(&rank_, inputs)),
        rows_(rank_.layout(), rank_.reply_rows().data()),
        type_(type),
        seed_(seed),
        device_(OpenDevice()) {}

  // Outputs in both types, with nothing between the rows and with something.
  void CheckCombineRows() {
    const TwinReplies replies(rows_, type_, seed_, device_.get());
    for (const auto& [type, gap] :
         {std::pair(type_, int64_t{3}), std::pair(FloatType::kFloat32, int64_t{0})}) {
      std::vector<Bytes> expected;
      std::vector<DeviceArray<char>> outputs;
      std::vector<OutputRows> rows;
      std::vector<OutputRows> device_rows;
      for (const CombinedInput& input : inputs_) {
        const int64_t stride = Dim(input) + gap;
        expected.emplace_back(static_cast<size_t>(input.bags.num_bags * stride * FloatBytes(type)),
                              kUnused);
        outputs.push_back(OnDevice(device_.get(), expected.back()));
        device_rows.emplace_back(outputs.back().data(), stride, type);
      }
      for (size_t i = 0; i < inputs_.size(); ++i) {
        rows.emplace_back(expected[i].data(), Dim(inputs_[i]) + gap, type);
      }
      CombineRows(rank_.layout(), replies.columns, inputs_, rows, Inline());
      EXPECT_TRUE(IsOk(cuda_impl::CombineRows(rank_.layout(), replies.device_columns, inputs_,
                                              device_rows, device_.get())));
      for (size_t i = 0; i < inputs_.size(); ++i) EXPECT_EQ(Values(outputs[i]), expected[i]);
    }
  }

  void CheckWeightsGradient() {
    const TwinReplies replies(rows_, type_, seed_ + 20, device_.get());
    Gradients gradients(this);
    std::vector<CombinedInput> weighted;
    std::vector<GradientRows> grads, device_grads;
    std::vector<std::vector<float>> expected;
    std::vector<DeviceArray<float>> outputs;
    std::vector<float*> device_outputs;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].bags.weights == nullptr) continue;
      weighted.push_back(inputs_[i]);
      grads.push_back(gradients.rows[i]);
      device_grads.push_back(gradients.device_rows[i]);
      expected.emplace_back(static_cast<size_t>(inputs_[i].bags.num_ids), -1.0f);
      outputs.push_back(OnDevice(device_.get(), expected.back()));
      device_outputs.push_back(outputs.back().data());
    }
    CombineWeightsGradient(rank_.layout(), replies.columns, weighted, grads, Pointers(&expected),
                           Inline());
    EXPECT_TRUE(
        IsOk(cuda_impl::CombineWeightsGradient(rank_.layout(), replies.device_columns, weighted,
                                               device_grads, device_outputs, device_.get())));
    for (size_t i = 0; i < weighted.size(); ++i)
      EXPECT_EQ(Bits(Values(outputs[i])), Bits(expected[i]));
  }

  void CheckReturnGradients() {
    Gradients gradients(this);
    Twins expected(rows_.num_floats(), type_, seed_, device_.get());
    Twins returned(rows_.num_floats(), type_, seed_ + 1, device_.get());
    ReturnGradients(rank_.layout(), rows_, inputs_, gradients.rows, 0.3f,
                    rows_.GradientColumns(VoidPointers(&expected.floats), FloatType::kFloat32),
                    Inline());
    EXPECT_TRUE(IsOk(cuda_impl::ReturnGradients(
        rank_.layout(), rows_, inputs_, gradients.device_rows, 0.3f,
        rows_.GradientColumns(returned.blocks(), type_), device_.get())));
    for (size_t r = 0; r < expected.floats.size(); ++r) {
      EXPECT_EQ(Values(returned.on_device[r]), Placed(type_, expected.floats[r], 1, 0, 1));
    }
  }

  // Of any numbers of rows that ranks may have been served.
  void CheckGatherGradients() {
    const auto& parts = rank_.layout().own_parts();
    std::vector<int64_t> served_rows;
    std::vector<int64_t> num_floats(rank_.layout().num_ranks);
    std::vector<std::vector<float>> expected;
    std::vector<DeviceArray<float>> gathered;
    for (size_t p = 0; p < parts.size(); ++p) {
      const int64_t dim = rank_.layout().slice(parts[p]).num_columns;
      int64_t floats = 0;
      for (size_t r = 0; r < num_floats.size(); ++r) {
        served_rows.push_back(static_cast<int64_t>((seed_ + 3 * p + r) % 5 * 60));
        num_floats[r] += served_rows.back() * dim;
        floats += served_rows.back() * dim;
      }
      expected.emplace_back(static_cast<size_t>(floats), -1.0f);
      gathered.push_back(OnDevice(device_.get(), expected.back()));
    }
    const Twins sent(num_floats, type_, seed_, device_.get());
    std::vector<const float*> floats;
    for (const auto& each : sent.floats) floats.push_back(each.data());
    std::vector<float*> device_grads;
    for (const auto& each : gathered) device_grads.push_back(each.data());
    GatherGradients(rank_.layout(), floats, served_rows.data(), Pointers(&expected), Inline());
    const std::vector<void*> blocks = sent.blocks();
    EXPECT_TRUE(
        IsOk(cuda_impl::GatherGradients(rank_.layout(), {blocks.begin(), blocks.end()}, type_,
                                        served_rows.data(), device_grads, device_.get())));
    for (size_t p = 0; p < parts.size(); ++p)
      EXPECT_EQ(Bits(Values(gathered[p])), Bits(expected[p]));
  }

 private:
  // Of the outputs; every other one among floats of others.
  struct Gradients {
    std::vector<Bytes> bytes;
    std::vector<DeviceArray<char>> on_device;
    std::vector<GradientRows> rows;
    std::vector<GradientRows> device_rows;

    explicit Gradients(ExchangeOnDevice* exchange) {
      for (size_t i = 0; i < exchange->inputs_.size(); ++i) {
        const CombinedInput& input = exchange->inputs_[i];
        const int64_t dim = exchange->Dim(input);
        const int64_t stride = dim + (i % 2 == 0 ? 0 : 4);
        std::vector<float> grads = RandomFloats(input.bags.num_bags * dim, exchange->seed_ + i);
        for (size_t g = 0; g < grads.size(); g += 3) grads[g] = g % 2 == 0 ? -0.0f : 0.0f;
        bytes.push_back(Placed(exchange->type_, grads, dim, 0, stride));
        on_device.push_back(OnDevice(exchange->device_.get(), bytes.back()));
        device_rows.emplace_back(on_device.back().data(), stride, exchange->type_);
      }
      for (size_t i = 0; i < bytes.size(); ++i) {
        rows.emplace_back(bytes[i].data(), device_rows[i].stride, exchange->type_);
      }
    }
  };

  static std::vector<CombinedInput> MakeInputs(Rank* rank, const std::vector<Ids>& inputs) {
    std::vector<std::vector<Word>> blocks;
    EXPECT_TRUE(IsOk(rank->Request(inputs, Inline(), &blocks)));
    return rank->combined();
  }
  int64_t Dim(const CombinedInput& input) const { return rank_.layout().tables[input.table].dim; }

  Rank rank_;
  const std::vector<CombinedInput> inputs_;
  const ResponseRows rows_;
  const FloatType type_;
  const uint64_t seed_;
  std::unique_ptr<Device> device_;
};

void CheckAll(const std::vector<PlacedTable>& tables, int64_t num_ranks,
              const std::vector<Ids>& inputs, FloatType type, uint64_t seed) {
  ExchangeOnDevice exchange(tables, num_ranks, inputs, type, seed);
  InAnyOrder([&] {
    exchange.CheckCombineRows();
    exchange.CheckWeightsGradient();
    exchange.CheckReturnGradients();
    exchange.CheckGatherGradients();
  });
}

TEST(ExchangeOnDevice, HasTheBitsOfTheCpu) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed, seed % 2 == 0 ? 1 : 4);
    const int64_t num_ranks = 1 + draw.Below(4);
    const auto tables = draw.Tables(1 + seed % 3, num_ranks);
    CheckAll(tables, num_ranks, draw.Inputs(tables, num_ranks, seed)[0], kFloatTypes[seed % 3],
             seed);
  }
}

TEST(ExchangeOnDevice, AddsManyGradientsOfARowInTheirOrder) {
  // Two inputs of one table, one with bags; 7 comes often in both. Another table of that width.
  const std::vector<PlacedTable> tables = {{100, 20, {0, 1}, {4, 16}}, {-1, 20, {}, {}, true}};
  std::vector<int64_t> ids(700, 7);
  for (size_t i = 0; i < ids.size(); i += 5) ids[i] = static_cast<int64_t>(i % 60);
  const std::vector<int64_t> splits = RandomSplits(90, 7, 3);
  const std::vector<int64_t> pooled(static_cast<size_t>(splits.back()), 7);
  for (const Combiner combiner : {Combiner::kNone, Combiner::kMean}) {
    const Ids second = combiner == Combiner::kNone ? Ids{0, pooled, combiner, {}, {}}
                                                   : Ids{0, pooled, combiner, splits, {}};
    CheckAll(tables, 2,
             {{0, ids, Combiner::kNone, {}, {}}, {1, ids, Combiner::kNone, {}, {}}, second},
             FloatType::kFloat32, 1);
  }
}

TEST(ExchangeOnDevice, HeadersCarryErrors) {
  const ExchangeLayout layout = Layout({{10, 4, {0}, {4}}}, 3, 0);
  const auto device = OpenDevice();
  std::vector<DeviceArray<Word>> blocks;
  std::vector<Word*> places;
  std::vector<Block> received;
  for (int r = 0; r < 3; ++r) {
    blocks.push_back(OnDevice(device.get(), std::vector<Word>(40, -1)));
    places.push_back(blocks.back().data());
    received.push_back({blocks.back().data(), 40});
  }
  ASSERT_TRUE(IsOk(cuda_impl::WriteHeaders(layout, places, device.get())));
  EXPECT_TRUE(IsOk(cuda_impl::CheckBlocks(layout, received, device.get())));
  std::vector<Word> expected(40, -1);
  WriteStatus(Status::Ok(), layout.checksum, expected.data());
  for (const auto& block : blocks) EXPECT_EQ(Values(block), expected);

  received[1].num_words = 3;
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "[rank 1 of 3] a block",
                        cuda_impl::CheckBlocks(layout, received, device.get())));
  received[1].num_words = 40;
  const Status error = InvalidArgument("the rows of this rank are lost");
  ASSERT_TRUE(IsOk(cuda_impl::WriteErrors(layout, error, {places[1]}, device.get())));
  received[1].num_words = StatusWords(error);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "[rank 1 of 3] the rows of this rank",
                        cuda_impl::CheckBlocks(layout, received, device.get())));
  const ExchangeLayout other = Layout({{10, 4, {0}, {4}}}, 3, 0, "another");
  ASSERT_TRUE(IsOk(cuda_impl::WriteHeaders(other, places, device.get())));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "[rank 0 of 3] every rank must make",
                        cuda_impl::CheckBlocks(layout, received, device.get())));
}

}  // namespace keras_sparse::exchange_on_device_test
