// accumulator += g^2
// row          -= decay * row + learning_rate * g / sqrt(accumulator + epsilon)
#include <cmath>
#include <memory>

#include "ops/core/optimizer/deferred_rule.h"

namespace keras_sparse {
namespace {

class Adagrad : public DeferredRule {
 public:
  explicit Adagrad(const RuleOptions& options)
      : DeferredRule(
            options, Untouched::kDecay,
            {{"accumulator", 1, static_cast<float>(options.constants.at("initial_accumulator"))}}),
        epsilon_(static_cast<float>(constant("epsilon"))) {}

 protected:
  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    const int64_t width = dim();
    const float learning_rate = learning_rate_;
    const float decay = decay_;
    const float epsilon = epsilon_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict accumulator = records[i] + width;
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < width; ++j) {
        accumulator[j] += g[j] * g[j];
        row[j] -= decay * row[j] + learning_rate * g[j] / std::sqrt(accumulator[j] + epsilon);
      }
    }
  }

 private:
  float epsilon_;
};

const bool kRegistered =
    UpdateRule::Register<Adagrad>("adagrad", {"initial_accumulator", "epsilon"});

}  // namespace
}  // namespace keras_sparse
