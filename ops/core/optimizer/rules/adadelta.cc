// accumulated_grad  = rho * accumulated_grad + (1 - rho) * g^2
// delta             = sqrt(accumulated_delta + epsilon) * g / sqrt(accumulated_grad + epsilon)
// accumulated_delta = rho * accumulated_delta + (1 - rho) * delta^2
// row               -= decay * row + learning_rate * delta
#include <cmath>
#include <memory>

#include "ops/core/optimizer/deferred_rule.h"

namespace keras_sparse {
namespace {

class Adadelta : public DeferredRule {
 public:
  explicit Adadelta(const RuleOptions& options)
      : DeferredRule(options, Untouched::kShrink,
                     {{"accumulated_grad", Rounded(options.constants.at("rho"))},
                      {"accumulated_delta_var", Rounded(options.constants.at("rho"))}}),
        rho_(static_cast<float>(constant("rho"))),
        one_minus_rho_(static_cast<float>(1 - constant("rho"))),
        epsilon_(static_cast<float>(constant("epsilon"))) {}

 protected:
  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    const int64_t width = dim();
    const float learning_rate = learning_rate_;
    const float decay = decay_;
    const float rho = rho_;
    const float one_minus_rho = one_minus_rho_;
    const float epsilon = epsilon_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict accumulated_grad = records[i] + width;
      float* __restrict accumulated_delta = records[i] + 2 * width;
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < width; ++j) {
        accumulated_grad[j] = rho * accumulated_grad[j] + one_minus_rho * (g[j] * g[j]);
        const float delta = std::sqrt(accumulated_delta[j] + epsilon) * g[j] /
                            std::sqrt(accumulated_grad[j] + epsilon);
        accumulated_delta[j] = rho * accumulated_delta[j] + one_minus_rho * (delta * delta);
        row[j] -= decay * row[j] + learning_rate * delta;
      }
    }
  }

 private:
  float rho_;
  float one_minus_rho_;
  float epsilon_;
};

const bool kRegistered = UpdateRule::Register<Adadelta>("adadelta", {"rho", "epsilon"});

}  // namespace
}  // namespace keras_sparse
