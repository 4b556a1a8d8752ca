#include "ops/core/operations/lookup.h"
#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::lookup_weights_gradient_test {

std::vector<float> WeightsGradient(EmbeddingTable* table, const std::vector<int64_t>& ids,
                                   const Bags& bags, const std::vector<float>& output_grads) {
  std::vector<float> weight_grads(ids.size(), std::numeric_limits<float>::quiet_NaN());
  ThreadExecutor executor(2);
  EXPECT_TRUE(IsOk(LookupWeightsGradient(
      {{table, ids.data(), bags, output_grads.data(), weight_grads.data(), VersionOf(*table)}},
      &executor)));
  return weight_grads;
}

TEST(LookupWeightsGradient, AgreesWithFiniteDifferences) {
  for (const int64_t dim : {1, 5, 33}) {
    const auto table = Open(Dynamic(dim));
    const std::vector<int64_t> splits = RandomSplits(60, 6, 1);
    const std::vector<int64_t> ids = RandomIds(splits.back(), 0, 20, 2);
    const std::vector<float> output_grads = RandomFloats(60 * dim, 3);
    std::vector<float> weights = RandomFloats(splits.back(), 4);
    for (float& weight : weights) weight = weight / 4 + 1;  // far from a zero divisor
    const auto row_of = [&](int64_t id) { return Lookup(table.get(), {id}); };
    const auto loss = [&](const Bags& bags) {
      const std::vector<double> pooled = ReferencePool(row_of, ids, bags, dim);
      double total = 0;
      for (size_t i = 0; i < pooled.size(); ++i) total += pooled[i] * output_grads[i];
      return total;
    };
    for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
      const Bags bags = BagsOf(combiner, splits, weights);
      const std::vector<float> gradient = WeightsGradient(table.get(), ids, bags, output_grads);
      for (size_t i = 0; i < weights.size(); i += 7) {
        const float weight = weights[i];
        const float step = 1.0f / 256;
        weights[i] = weight + step;
        const double above = loss(bags);
        weights[i] = weight - step;
        const double below = loss(bags);
        weights[i] = weight;
        ASSERT_NEAR(gradient[i], (above - below) / (2 * step), 2e-4) << "weight " << i;
      }
    }
  }
}

TEST(LookupWeightsGradient, IsTheRowsProductForASum) {
  const auto table = OpenWithRule(Options(3, 2), SgdRule());
  ASSERT_TRUE(IsOk(ImportAll(table.get(), {0, 1}, {1, 2, 3, 4})));
  const std::vector<int64_t> splits = {0, 0, 2};
  const std::vector<float> weights = {1, 1};
  EXPECT_EQ(WeightsGradient(table.get(), {1, 0}, BagsOf(Combiner::kSum, splits, weights),
                            {9, 9, 10, 100}),
            (std::vector<float>{430, 210}));
}

TEST(LookupWeightsGradient, IsZeroWhereTheDivisorIsZero) {
  const auto table = Open(Dynamic(2));
  const std::vector<int64_t> splits = {0, 2, 3};
  const std::vector<float> opposite = {1, -1, 2};
  const auto mean = WeightsGradient(table.get(), {1, 2, 3},
                                    BagsOf(Combiner::kMean, splits, opposite), {1, 1, 1, 1});
  EXPECT_EQ(mean[0], 0);
  EXPECT_EQ(mean[1], 0);
  const std::vector<float> zeros(3, 0.0f);
  EXPECT_EQ(WeightsGradient(table.get(), {1, 2, 3}, BagsOf(Combiner::kSqrtN, splits, zeros),
                            {1, 1, 1, 1}),
            zeros);
}

TEST(LookupWeightsGradient, RefusesAnIdOutsideAStaticTable) {
  const auto table = Open(Options(3, 1));
  const std::vector<int64_t> ids = {0, 3};
  const std::vector<int64_t> splits = {0, 2};
  const std::vector<float> weights = {1, 1};
  const std::vector<float> output_grads = {1};
  std::vector<float> weight_grads(2);
  EXPECT_TRUE(FailsWith(
      StatusCode::kInvalidArgument, "ids[1] = 3",
      LookupWeightsGradient({{table.get(), ids.data(), BagsOf(Combiner::kSum, splits, weights),
                              output_grads.data(), weight_grads.data(), VersionOf(*table)}},
                            Inline())));
}

TEST(LookupWeightsGradient, RefusesRowsThatHaveChangedSinceTheLookup) {
  const auto table = OpenWithRule(Dynamic(1), SgdRule());
  const std::vector<int64_t> ids = {5, 6};
  const std::vector<int64_t> splits = {0, 2};
  const std::vector<float> weights = {1, 1};
  const Bags bags = BagsOf(Combiner::kSum, splits, weights);
  const std::vector<float> output_grads = {1};
  std::vector<float> row(1);
  std::vector<float> weight_grads(2);
  int64_t version = -1;
  ASSERT_TRUE(IsOk(LookupRows({{table.get(), ids.data(), bags, row.data(), &version}}, Inline())));
  const WeightsGradientRequest request = {table.get(),         ids.data(),          bags,
                                          output_grads.data(), weight_grads.data(), version};
  EXPECT_TRUE(IsOk(LookupWeightsGradient({request}, Inline())));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {6}, {1})));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "changed since the lookup",
                        LookupWeightsGradient({request}, Inline())));
}

TEST(LookupWeightsGradient, TakesABatchOfSizeZero) {
  const auto table = Open(Dynamic(2));
  const std::vector<int64_t> splits = {0};
  EXPECT_TRUE(WeightsGradient(table.get(), {}, BagsOf(Combiner::kMean, splits), {}).empty());
}

}  // namespace keras_sparse::lookup_weights_gradient_test
