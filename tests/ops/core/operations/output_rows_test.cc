// Outputs and gradients whose rows lie among others, or are no floats.
#include "ops/core/gradients/gradient_merger.h"
#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::output_rows_test {

constexpr int64_t kBags = 300;
constexpr int64_t kWidths[] = {1, 4, 5, 8, 32};

// Calls body(dim, ids, bags, first, stride) for widths, ways to pool, and places among others.
template <typename Body>
void ForEachCase(const Body& body) {
  for (const int64_t dim : kWidths) {
    for (const int64_t first : {0, 3, 8}) {
      const std::vector<int64_t> splits = RandomSplits(kBags, 5, 1);
      const std::vector<int64_t> ids = RandomIds(splits.back(), 0, 30, 2);
      const std::vector<float> weights = RandomFloats(splits.back(), 3);
      const int64_t stride = first + dim + (first == 8 ? 8 : 1);
      body(dim, ids, NoBags(ids), first, stride);
      body(dim, ids, BagsOf(Combiner::kMean, splits), first, stride);
      body(dim, ids, BagsOf(Combiner::kSqrtN, splits, weights), first, stride);
    }
  }
}

TEST(OutputRows, AreRoundedAndLeaveWhatIsBetweenThem) {
  ThreadExecutor executor(2);
  ForEachCase([&](int64_t dim, const std::vector<int64_t>& ids, const Bags& bags, int64_t first,
                  int64_t stride) {
    const auto table = Open(Dynamic(dim));
    const std::vector<float> pooled = Pool(table.get(), ids, bags);
    for (const FloatType type : kFloatTypes) {
      std::vector<char> bytes(Placed(type, pooled, dim, first, stride).size(), kUnused);
      const OutputRows rows = OutputRows(bytes.data(), stride, type).From(first);
      ASSERT_TRUE(IsOk(LookupRows({{table.get(), ids.data(), bags, rows}}, &executor)));
      EXPECT_EQ(bytes, Placed(type, pooled, dim, first, stride));
    }
  });
}

TEST(OutputRows, LeaveWhatIsBetweenThemWhereTheyAreStreamed) {
  constexpr int64_t kDim = 8;
  constexpr int64_t kIds = (int64_t{9} << 20) / kDim;  // of 38 MB
  ThreadExecutor executor(2);
  const auto table = Open(Options(50, kDim, 5));
  const std::vector<int64_t> ids = RandomIds(kIds, 0, 49, 3);
  const std::vector<float> expected = Lookup(table.get(), ids);
  for (const FloatType type : kFloatTypes) {
    for (const int64_t stride : {16, 17}) {  // at the alignment of vectors, and not
      const std::vector<char> placed = Placed(type, expected, kDim, 8, stride);
      std::vector<char> bytes(placed.size(), kUnused);
      const OutputRows rows = OutputRows(bytes.data(), stride, type).From(8);
      ASSERT_TRUE(IsOk(LookupRows({{table.get(), ids.data(), NoBags(ids), rows}}, &executor)));
      EXPECT_TRUE(bytes == placed) << "stride " << stride;
    }
  }
}

TEST(OutputRows, OfALargeBagAreRoundedOnce) {
  ThreadExecutor executor(2);
  const auto table = Open(Dynamic(5));
  const std::vector<int64_t> ids = RandomIds(3000, 0, 900, 2);
  const std::vector<int64_t> splits = {0, 2990, 2990, 3000};
  const Bags bags = BagsOf(Combiner::kMean, splits);
  const std::vector<float> pooled = Pool(table.get(), ids, bags);
  for (const FloatType type : kFloatTypes) {
    std::vector<char> bytes(Placed(type, pooled, 5, 0, 5).size());
    const OutputRows rows(bytes.data(), 0, type);
    ASSERT_TRUE(IsOk(LookupRows({{table.get(), ids.data(), bags, rows}}, &executor)));
    EXPECT_EQ(bytes, Placed(type, pooled, 5, 0, 5));
  }
}

// Two gradients of the same floats in different places give the same sums, updated rows and
// gradients of weights, bit for bit.
void ExpectSameOf(const OutputGradient& one, const OutputGradient& other,
                  const std::vector<int64_t>& ids) {
  ThreadExecutor executor(2);
  std::unique_ptr<GradientMerger> merger;
  ASSERT_TRUE(IsOk(GradientMerger::Create({one, other}, &executor, &merger)));
  std::vector<std::vector<int64_t>> unique(2);
  std::vector<std::vector<float>> sums(2);
  std::vector<GradientMerger::Result> results;
  for (size_t i = 0; i < 2; ++i) {
    unique[i].resize(static_cast<size_t>(merger->num_entries(i)));
    sums[i].resize(unique[i].size() * static_cast<size_t>(one.dim));
    results.push_back({unique[i].data(), sums[i].data()});
  }
  merger->Write(results, &executor);
  EXPECT_EQ(unique[0], unique[1]);
  EXPECT_EQ(Bits(sums[0]), Bits(sums[1]));

  const std::vector<float> numbers = {0.5f};
  std::vector<std::vector<float>> updated;
  for (const OutputGradient& gradient : {one, other}) {
    const auto table = OpenWithRule(Dynamic(one.dim), SgdRule());
    const ApplyRequest request{table.get(), {gradient}, RuleGenerationOf(*table), numbers};
    ASSERT_TRUE(IsOk(ApplyGradients({request}, &executor)));
    updated.push_back(Lookup(table.get(), ids));
  }
  EXPECT_EQ(Bits(updated[0]), Bits(updated[1]));

  if (one.bags.weights == nullptr) return;
  const auto table = Open(Dynamic(one.dim));
  std::vector<std::vector<float>> weight_grads(2, std::vector<float>(ids.size()));
  std::vector<WeightsGradientRequest> requests;
  for (const OutputGradient& each : {one, other}) {
    float* to = weight_grads[requests.size()].data();
    requests.push_back({table.get(), ids.data(), each.bags, each.grads, to, VersionOf(*table)});
  }
  ASSERT_TRUE(IsOk(LookupWeightsGradient(requests, &executor)));
  EXPECT_EQ(Bits(weight_grads[0]), Bits(weight_grads[1]));
}

TEST(OutputRows, GradientsAreReadAmongOthersInAnyType) {
  ForEachCase([&](int64_t dim, const std::vector<int64_t>& ids, const Bags& bags, int64_t first,
                  int64_t stride) {
    std::vector<float> grads = RandomFloats(bags.num_bags * dim, 4);
    grads[0] = -0.0f;
    for (const FloatType type : kFloatTypes) {
      const std::vector<float> alone = Rounded(type, grads);
      const std::vector<char> bytes = Placed(type, grads, dim, first, stride);
      const GradientRows placed = GradientRows(bytes.data(), stride, type).From(first);
      ExpectSameOf({ids.data(), bags, alone.data(), dim}, {ids.data(), bags, placed, dim}, ids);
    }
  });
}

}  // namespace keras_sparse::output_rows_test
