// accumulator += mean of g^2 over the row
// row          -= decay * row + learning_rate * g / sqrt(accumulator + epsilon)
//
// One accumulator a row. Only rows that got a gradient change, by weight decay as well.
#include <cmath>
#include <memory>

#include "ops/core/math/vector_math.h"
#include "ops/core/optimizer/update_rule.h"

namespace keras_sparse {
namespace {

class RowWiseAdagrad : public UpdateRule {
 public:
  explicit RowWiseAdagrad(const RuleOptions& options)
      : UpdateRule(options,
                   RecordLayout(options.dim,
                                {{"row_accumulator", true,
                                  static_cast<float>(options.constants.at("initial_accumulator"))}},
                                false)),
        epsilon_(static_cast<float>(constant("epsilon"))) {}

 protected:
  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    const int64_t width = dim();
    const float decay = decay_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict accumulator = records[i] + width;
      const float* __restrict g = gradients[i];
      *accumulator += Dot(g, g, width) / static_cast<float>(width);
      const float rate = learning_rate_ / std::sqrt(*accumulator + epsilon_);
      for (int64_t j = 0; j < width; ++j) row[j] -= decay * row[j] + rate * g[j];
    }
  }

 private:
  float epsilon_;
};

const bool kRegistered =
    UpdateRule::Register<RowWiseAdagrad>("row_wise_adagrad", {"initial_accumulator", "epsilon"});

}  // namespace
}  // namespace keras_sparse
