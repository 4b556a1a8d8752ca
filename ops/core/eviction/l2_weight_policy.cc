// Evicts a row if half its squared length is below `l2_weight_threshold`.
#include <array>
#include <cmath>

#include "ops/core/eviction/eviction_policy.h"

namespace keras_sparse {
namespace {

// Separate sums, so that the compiler can keep them in vector registers.
constexpr int64_t kSums = 8;

double SumOfSquares(const float* row, int64_t dim) {
  std::array<double, kSums> sums = {};
  const auto add = [&](int64_t i, size_t sum) {
    const auto value = static_cast<double>(row[i]);
    sums[sum] += value * value;
  };
  int64_t i = 0;
  for (; i + kSums <= dim; i += kSums) {
    for (int64_t j = 0; j < kSums; ++j) add(i + j, static_cast<size_t>(j));
  }
  for (; i < dim; ++i) add(i, static_cast<size_t>(i % kSums));
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

class L2Weight : public EvictionPolicy {
 public:
  explicit L2Weight(double threshold) : threshold_(threshold) {}

  bool needs_row() const override { return true; }
  // A row with a NaN stays, because NaN is below nothing.
  bool Evicts(uint32_t /*age*/, const float* row, int64_t dim) const override {
    return 0.5 * SumOfSquares(row, dim) < threshold_;
  }

 private:
  double threshold_;
};

Status CreateL2WeightPolicy(const EvictionOptions& options,
                            std::unique_ptr<EvictionPolicy>* policy) {
  const double threshold = options.constants.at("l2_weight_threshold");
  if (!(threshold > 0 && std::isfinite(threshold))) {
    return InvalidArgument(
        "`l2_weight_threshold` must be above 0 and finite. Received: l2_weight_threshold=" +
        std::to_string(threshold));
  }
  *policy = std::make_unique<L2Weight>(threshold);
  return Status::Ok();
}

const bool kRegistered =
    EvictionPolicy::Register("l2_weight", {"l2_weight_threshold"}, CreateL2WeightPolicy);

}  // namespace
}  // namespace keras_sparse
