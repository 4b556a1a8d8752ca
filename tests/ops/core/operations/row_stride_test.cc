// Outputs and gradients whose rows lie among others.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "ops/core/gradients/gradient_merger.h"
#include "ops/core/operations/apply.h"
#include "ops/core/operations/lookup.h"
#include "tests/ops/core/support/reference.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse {
namespace row_stride_test {

constexpr int64_t kBags = 300;
constexpr int64_t kWidths[] = {1, 4, 5, 8, 32};

// A matrix of which some columns are used; the others are NaN.
class Columns {
 public:
  Columns(int64_t num_rows, int64_t dim, int64_t first, int64_t stride)
      : num_rows_(num_rows),
        dim_(dim),
        first_(first),
        stride_(stride),
        floats_(static_cast<size_t>(num_rows * stride), std::numeric_limits<float>::quiet_NaN()) {}

  float* begin() { return floats_.data() + first_; }

  void Set(const std::vector<float>& values) {
    for (int64_t i = 0; i < num_rows_ * dim_; ++i) {
      begin()[i / dim_ * stride_ + i % dim_] = values[static_cast<size_t>(i)];
    }
  }
  std::vector<float> Get() {
    std::vector<float> values;
    for (int64_t i = 0; i < num_rows_ * dim_; ++i) {
      values.push_back(begin()[i / dim_ * stride_ + i % dim_]);
    }
    return values;
  }
  int64_t num_other_numbers() const {
    int64_t num_numbers = -num_rows_ * dim_;
    for (const float each : floats_) num_numbers += std::isnan(each) ? 0 : 1;
    return num_numbers;
  }

 private:
  int64_t num_rows_;
  int64_t dim_;
  int64_t first_;
  int64_t stride_;
  std::vector<float> floats_;
};

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

TEST(RowStride, LeavesWhatIsBetweenTheRowsOfALookup) {
  ThreadExecutor executor(2);
  ForEachCase([&](int64_t dim, const std::vector<int64_t>& ids, const Bags& bags, int64_t first,
                  int64_t stride) {
    const auto table = Open(Dynamic(dim));
    Columns rows(bags.num_bags, dim, first, stride);
    LookupRequest request{table.get(), ids.data(), bags, rows.begin()};
    request.row_stride = stride;
    ASSERT_TRUE(IsOk(LookupRows({request}, &executor)));
    EXPECT_EQ(rows.Get(), Pool(table.get(), ids, bags));
    EXPECT_EQ(rows.num_other_numbers(), 0);
  });
}

TEST(RowStride, LeavesWhatIsBetweenRowsThatAreStreamed) {
  constexpr int64_t kDim = 8;
  constexpr int64_t kIds = (int64_t{9} << 20) / kDim;  // of 38 MB
  ThreadExecutor executor(2);
  const auto table = Open(Options(50, kDim, 5));
  const std::vector<int64_t> ids = RandomIds(kIds, 0, 49, 3);
  for (const int64_t stride : {16, 17}) {  // at the alignment of vectors, and not
    Columns rows(kIds, kDim, 8, stride);
    LookupRequest request{table.get(), ids.data(), NoBags(ids), rows.begin()};
    request.row_stride = stride;
    ASSERT_TRUE(IsOk(LookupRows({request}, &executor)));
    EXPECT_TRUE(rows.Get() == Lookup(table.get(), ids)) << "stride " << stride;
    EXPECT_EQ(rows.num_other_numbers(), 0);
  }
}

TEST(RowStride, ReadsGradientsAmongOthers) {
  ThreadExecutor executor(2);
  ForEachCase([&](int64_t dim, const std::vector<int64_t>& ids, const Bags& bags, int64_t first,
                  int64_t stride) {
    const std::vector<float> grads = RandomFloats(bags.num_bags * dim, 4);
    Columns among_others(bags.num_bags, dim, first, stride);
    among_others.Set(grads);
    const OutputGradient alone{ids.data(), bags, grads.data(), dim};
    const OutputGradient strided{ids.data(), bags, among_others.begin(), dim, stride};

    std::unique_ptr<GradientMerger> merger;
    ASSERT_TRUE(IsOk(GradientMerger::Create({alone, strided}, &executor, &merger)));
    std::vector<std::vector<int64_t>> unique(2);
    std::vector<std::vector<float>> sums(2);
    std::vector<GradientMerger::Result> results;
    for (size_t i = 0; i < 2; ++i) {
      unique[i].resize(static_cast<size_t>(merger->num_unique(i)));
      sums[i].resize(unique[i].size() * static_cast<size_t>(dim));
      results.push_back({unique[i].data(), sums[i].data()});
    }
    merger->Write(results, &executor);
    EXPECT_EQ(unique[0], unique[1]);
    EXPECT_EQ(Bits(sums[0]), Bits(sums[1]));

    const std::vector<float> numbers = {0.5f};
    std::vector<std::vector<float>> updated;
    for (const OutputGradient& gradient : {alone, strided}) {
      const auto table = OpenWithRule(Dynamic(dim), SgdRule());
      const ApplyRequest request{table.get(), gradient, RuleGenerationOf(*table), numbers};
      ASSERT_TRUE(IsOk(ApplyGradients({request}, &executor)));
      updated.push_back(Lookup(table.get(), ids));
    }
    EXPECT_EQ(Bits(updated[0]), Bits(updated[1]));

    if (bags.weights == nullptr) return;
    const auto table = Open(Dynamic(dim));
    std::vector<float> weight_grads(ids.size());
    std::vector<float> strided_weight_grads(ids.size());
    ASSERT_TRUE(IsOk(LookupWeightsGradient(
        {{table.get(), ids.data(), bags, grads.data(), weight_grads.data(), VersionOf(*table)},
         {table.get(), ids.data(), bags, among_others.begin(), strided_weight_grads.data(),
          VersionOf(*table), stride}},
        &executor)));
    EXPECT_EQ(Bits(weight_grads), Bits(strided_weight_grads));
  });
}

}  // namespace row_stride_test
}  // namespace keras_sparse
