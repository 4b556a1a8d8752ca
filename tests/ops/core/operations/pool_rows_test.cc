#include "ops/core/operations/pool_rows.h"

#include "tests/ops/core/device/table_on_device.h"
#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::pool_rows_test {

using cuda_impl::PoolRequest;
using cuda_impl::PoolRows;
using cuda_impl::WeightsGradient;

constexpr int64_t kRows = 40;
constexpr int64_t kNumBags = 37;
constexpr int64_t kWidths[] = {1, 3, 4, 8, 20, 33, 64, 132};

// A table, what it is asked for, and the outputs of the CPU and of the GPU among other bytes.
struct Case {
  Case(Device* device, EmbeddingTable* table, const std::vector<int64_t>& ids, const Bags& bags,
       FloatType type, int64_t first, int64_t stride)
      : cpu(static_cast<size_t>((bags.num_bags * stride + first) * FloatBytes(type)), '\x7f'),
        rows(OnDevice<char>(device, cpu)),
        on_device(device, *table),
        lists(device, ids, bags),
        found(device, on_device.view(), lists.ids(), bags.num_ids),
        request{{on_device.view(), lists.ids(), found.rows(), nullptr},
                lists.bags(),
                OutputRows(rows.data(), stride, type).From(first)} {
    const OutputRows output = OutputRows(cpu.data(), stride, type).From(first);
    EXPECT_TRUE(IsOk(LookupRows({{table, ids.data(), bags, output}}, Inline())));
  }

  std::vector<char> cpu;
  DeviceArray<char> rows;
  TableOnDevice on_device;
  BagsOnDevice lists;
  RowsOnDevice found;
  PoolRequest request;
};

TEST(PoolRows, GivesTheBitsOfTheCpu) {
  const std::vector<int64_t> splits = RandomSplits(kNumBags, 9, 3);
  const std::vector<int64_t> ids = RandomIds(splits.back(), 0, kRows - 1, 4);
  const std::vector<float> weights = RandomFloats(splits.back(), 5);
  InAnyOrder([&] {
    const auto device = OpenDevice();
    // All in one op.
    std::vector<std::unique_ptr<Case>> cases;
    std::vector<PoolRequest> requests;
    std::vector<std::pair<int64_t, FloatType>> tables;
    for (const int64_t dim : kWidths) {
      for (const FloatType type : kFloatTypes) tables.emplace_back(dim, type);
    }
    for (const auto& [dim, row_type] : tables) {
      const auto table = Open(Packed(Options(kRows, dim, 5), {row_type, FloatType::kFloat32}));
      const auto add = [&](const Bags& bags, FloatType type, int64_t first, int64_t stride) {
        cases.push_back(
            std::make_unique<Case>(device.get(), table.get(), ids, bags, type, first, stride));
        requests.push_back(cases.back()->request);
      };
      for (const FloatType type : kFloatTypes) {
        add(NoBags(ids), type, 0, dim);
        add(BagsOf(Combiner::kMean, splits), type, 4, dim + 8);
      }
      add(NoBags(ids), FloatType::kFloat32, 3, dim + 5);
      add(BagsOf(Combiner::kSum, splits), FloatType::kFloat32, 0, dim);
      add(BagsOf(Combiner::kSum, splits, weights), FloatType::kFloat32, 0, dim);
      add(BagsOf(Combiner::kMean, splits, weights), FloatType::kFloat32, 1, dim + 1);
      add(BagsOf(Combiner::kSqrtN, splits, weights), FloatType::kBFloat16, 0, dim);
    }
    ASSERT_TRUE(IsOk(PoolRows(requests, device.get())));
    for (size_t c = 0; c < cases.size(); ++c) {
      EXPECT_EQ(Values(cases[c]->rows), cases[c]->cpu) << "case " << c;
      EXPECT_FALSE(cases[c]->on_device.Checks().refuses());
    }
  });
}

TEST(PoolRows, TakesNothingAtAll) {
  const auto device = OpenDevice();
  ASSERT_TRUE(IsOk(PoolRows({}, device.get())));
  const auto table = Open(Options(kRows, 4));
  const auto no_rows = Open(Options(0, 4));
  const Case no_ids(device.get(), table.get(), {}, NoBags({}), FloatType::kFloat32, 0, 4);
  const std::vector<int64_t> splits = {0, 0, 0};
  const Case empty_bags(device.get(), no_rows.get(), {}, BagsOf(Combiner::kMean, splits),
                        FloatType::kFloat32, 0, 4);
  ASSERT_TRUE(IsOk(PoolRows({no_ids.request, empty_bags.request}, device.get())));
  EXPECT_EQ(Values(empty_bags.rows), empty_bags.cpu);
}

// Floats with one kind of NaN: a GPU has its own for whatever it has computed, whose bits are not
// those that a CPU makes of the same.
std::vector<float> WithOneNaN(const std::vector<char>& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  for (float& each : floats) {
    if (std::isnan(each)) each = std::numeric_limits<float>::quiet_NaN();
  }
  return floats;
}

TEST(PoolRows, KeepsNaNsAndSignsOfZero) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto device = OpenDevice();
  const auto table = OpenWithRule(Options(3, 4), SgdRule());
  const std::vector<float> rows = {-0.0f, 0,          kNaN, kInfinity, -0.0f, -0.0f,
                                   1,     -kInfinity, 1,    2,         3,     4};
  const std::vector<float> before = Lookup(table.get(), {0, 1, 2});
  std::vector<float> grads;
  for (size_t i = 0; i < rows.size(); ++i) grads.push_back(before[i] - rows[i]);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {0, 1, 2}, grads)));
  const std::vector<int64_t> ids = {0, 1, 2, 0, 1};
  const std::vector<int64_t> splits = {0, 1, 2, 5};
  const Case copied(device.get(), table.get(), ids, NoBags(ids), FloatType::kFloat16, 0, 4);
  const Case pooled(device.get(), table.get(), ids, BagsOf(Combiner::kSum, splits),
                    FloatType::kFloat32, 0, 4);
  ASSERT_TRUE(IsOk(PoolRows({copied.request, pooled.request}, device.get())));
  EXPECT_EQ(Values(copied.rows), copied.cpu);
  EXPECT_EQ(Bits(WithOneNaN(Values(pooled.rows))), Bits(WithOneNaN(pooled.cpu)));
}

TEST(PoolRows, ReadsIdsOutsideAsZerosAndCountsThem) {
  TableOptions options = Options(kRows, 8);
  options.out_of_range_is_zero = true;
  const auto table = Open(options);
  std::vector<int64_t> ids = ExtremeKeys();
  ids.insert(ids.end(), {kRows, kRows - 1, -1, 0});
  const std::vector<int64_t> splits = {0, 3, static_cast<int64_t>(ids.size())};
  int64_t num_outside = 0;
  for (const int64_t id : ids) num_outside += id < 0 || id >= kRows ? 1 : 0;
  InAnyOrder([&] {
    const auto device = OpenDevice();
    const Case copied(device.get(), table.get(), ids, NoBags(ids), FloatType::kFloat32, 0, 8);
    const Case pooled(device.get(), table.get(), ids, BagsOf(Combiner::kMean, splits),
                      FloatType::kFloat32, 0, 8);
    ASSERT_TRUE(IsOk(PoolRows({copied.request, pooled.request}, device.get())));
    for (const Case* each : {&copied, &pooled}) {
      EXPECT_EQ(Values(each->rows), each->cpu);
      const IdChecks checks = each->on_device.Checks();
      EXPECT_FALSE(checks.refuses());
      EXPECT_EQ(checks.num_outside, static_cast<unsigned long long>(num_outside));
    }
  });
}

// Splits that point outside would have kernels read and write there.
TEST(PoolRows, RefusesSplitsThatDoNotRise) {
  const auto table = Open(Options(kRows, 4));
  const std::vector<int64_t> ids = {1, 2, 3, 4};
  const std::vector<std::vector<int64_t>> wrong = {
      {1, 2, 4}, {0, 3, 2, 4}, {0, 2, 3}, {0, 2, 5}, {0, -1, 4}, {0, int64_t{1} << 40, 4}};
  for (const std::vector<int64_t>& splits : wrong) {
    const auto device = OpenDevice();
    Bags bags = BagsOf(Combiner::kSum, splits);
    bags.num_ids = 4;
    const TableOnDevice on_device(device.get(), *table);
    const BagsOnDevice lists(device.get(), ids, bags);
    const RowsOnDevice found(device.get(), on_device.view(), lists.ids(), 4);
    const auto rows = OnDevice(device.get(), std::vector<float>(100));
    ASSERT_TRUE(IsOk(PoolRows(
        {{{on_device.view(), lists.ids(), found.rows(), nullptr}, lists.bags(), rows.data()}},
        device.get())));
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "`row_splits` must rise from 0 to the number of ids, for table 'items'",
                          on_device.Checks().ToStatus("items", OwnedKeys{kRows})));
  }
}

TEST(WeightsGradient, GivesTheBitsOfTheCpu) {
  const std::vector<int64_t> splits = RandomSplits(kNumBags, 9, 3);
  std::vector<int64_t> ids = RandomIds(splits.back(), 0, kRows - 1, 4);
  ids[5] = -1;  // reads as zeros
  const std::vector<float> weights = RandomFloats(splits.back(), 5);
  InAnyOrder([&] {
    const auto device = OpenDevice();
    for (const int64_t dim : kWidths) {
      for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
        TableOptions options = Options(kRows, dim, 5);
        options.out_of_range_is_zero = true;
        options.types.row = kFloatTypes[(dim + static_cast<int64_t>(combiner)) % 3];
        const auto table = Open(options);
        const Bags bags = BagsOf(combiner, splits, weights);
        const std::vector<float> grads = RandomFloats(kNumBags * dim, 6);
        std::vector<float> expected(ids.size());
        ASSERT_TRUE(IsOk(LookupWeightsGradient(
            {{table.get(), ids.data(), bags, grads.data(), expected.data(), 0}}, Inline())));
        const TableOnDevice on_device(device.get(), *table);
        const BagsOnDevice lists(device.get(), ids, bags);
        const RowsOnDevice found(device.get(), on_device.view(), lists.ids(), bags.num_ids);
        const auto output_grads = OnDevice(device.get(), grads);
        const auto weight_grads = OnDevice(device.get(), std::vector<float>(ids.size(), 7));
        ASSERT_TRUE(IsOk(WeightsGradient({{{on_device.view(), lists.ids(), found.rows(), nullptr},
                                           lists.bags(),
                                           output_grads.data(),
                                           weight_grads.data()}},
                                         device.get())));
        EXPECT_EQ(Bits(Values(weight_grads)), Bits(expected)) << "dim " << dim;
      }
    }
  });
}

}  // namespace keras_sparse::pool_rows_test
