// What rounding at random is for: updates too small for the bits of a number are not lost.
#include <cmath>

#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::random_rounding_test {

constexpr int64_t kDim = 40;
constexpr int64_t kKeys = 100;
constexpr int64_t kSteps = 1000;
constexpr float kBegin = 1.75f;

TableOptions BeginAt(float value, const RecordTypes& types, bool randomly) {
  TableOptions options = Dynamic(kDim);
  options.initializer = {"constant", value, 0, 9};
  return Packed(options, types, randomly);
}

// Mean and variance of numbers, and the covariance of neighbours.
struct Moments {
  double mean = 0;
  double variance = 0;
  double covariance = 0;

  static Moments Of(const std::vector<double>& values) {
    Moments moments;
    const auto n = static_cast<double>(values.size());
    for (const double value : values) moments.mean += value / n;
    for (size_t i = 0; i < values.size(); ++i) {
      const double off = values[i] - moments.mean;
      moments.variance += off * off / n;
      moments.covariance += off * (values[(i + 1) % values.size()] - moments.mean) / n;
    }
    return moments;
  }
};

// Of steps that are each a part of the distance between two numbers of a type, how many are taken
// is binomial: the sum has the mean of float32's sum and a known variance.
//   change  (kKeys * kDim) of all steps together
void ExpectBinomial(const std::vector<double>& change, double step, double spacing) {
  const auto n = static_cast<double>(change.size());
  const double p = step / spacing;
  const double variance = spacing * spacing * kSteps * p * (1 - p);
  const Moments moments = Moments::Of(change);
  EXPECT_NEAR(moments.mean, kSteps * step, 5 * std::sqrt(variance / n));
  EXPECT_NEAR(moments.variance / variance, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(moments.covariance / variance, 0, 5 / std::sqrt(n));
}

// Of the row (0) or a slot of all rows, less `begin`.
std::vector<double> ChangeOf(const EmbeddingTable& table, size_t part, float begin) {
  std::vector<double> change;
  for (const auto& [key, row] : ExportAll(table)) {
    for (size_t j = 0; j < kDim; ++j) {
      change.push_back(double{row.record[part * kDim + j]} - double{begin});
    }
  }
  return change;
}

void Train(EmbeddingTable* table, float gradient) {
  const std::vector<int64_t> ids = Range(0, kKeys);
  const std::vector<float> grads(kKeys * kDim, gradient);
  for (int64_t step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(IsOk(Apply(table, {1}, ids, grads)));
  }
}

TEST(RoundedUpdates, SumsUpdatesTooSmallForOneBitOfARow) {
  struct Case {
    FloatType type;
    double spacing;  // of numbers in [1, 2)
  };
  for (const Case& each : {Case{FloatType::kBFloat16, 0x1p-7}, {FloatType::kFloat16, 0x1p-10}}) {
    for (const double part : {0x1p-5, 0.3}) {
      const double step = std::min(each.spacing * part, 0.7 / kSteps);
      const auto gradient = static_cast<float>(step);
      const RecordTypes types = {each.type, FloatType::kFloat32};
      const auto nearest = OpenWithRule(BeginAt(kBegin, types, false), SgdRule());
      const auto random = OpenWithRule(BeginAt(kBegin, types, true), SgdRule());
      Train(nearest.get(), gradient);
      for (const double change : ChangeOf(*nearest, 0, kBegin)) ASSERT_EQ(change, 0);
      Train(random.get(), gradient);
      std::vector<double> change = ChangeOf(*random, 0, kBegin);
      for (double& value : change) value = -value;
      ExpectBinomial(change, double{gradient}, each.spacing);
    }
  }
}

TEST(RoundedUpdates, SumsUpdatesTooSmallForOneBitOfASlot) {
  const RecordTypes types = {FloatType::kFloat32, FloatType::kBFloat16};
  for (const bool randomly : {false, true}) {
    const auto table = OpenWithRule(BeginAt(kBegin, types, randomly), AdagradRule(1));
    Train(table.get(), 0x1p-6f);  // the accumulator adds its square
    const std::vector<double> change = ChangeOf(*table, 1, 1);
    if (randomly) {
      ExpectBinomial(change, 0x1p-12, 0x1p-7);
    } else {
      for (const double value : change) ASSERT_EQ(value, 0);
    }
  }
}

TEST(RoundedUpdates, IsAnotherForEachSeed) {
  const RecordTypes types = {FloatType::kBFloat16, FloatType::kBFloat16};
  TableOptions options = BeginAt(1, types, true);
  const auto table = OpenWithRule(options, SgdRule());
  options.initializer.seed += int64_t{1} << 32;  // the upper word counts, too
  const auto other = OpenWithRule(options, SgdRule());
  const std::vector<float> grads = RandomFloats(kDim, 1);
  ASSERT_TRUE(IsOk(ApplyToEach({table.get(), other.get()}, {0.1f}, {5}, grads)));
  EXPECT_NE(ExportAll(*table), ExportAll(*other));
}

}  // namespace keras_sparse::random_rounding_test
