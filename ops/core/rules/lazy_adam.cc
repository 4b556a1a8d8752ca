// momentum += (g - momentum) * one_minus_beta_1
// velocity += (g^2 - velocity) * one_minus_beta_2
// row      -= alpha * momentum / (sqrt(velocity) + epsilon)
//
// Only rows that got a gradient move. The numbers of a step are (alpha, one_minus_beta_1,
// one_minus_beta_2, epsilon) with alpha = learning_rate * sqrt(1 - beta_2^step) / (1 -
// beta_1^step): the caller works them out, as Keras does, since a float32 beta_2 of 0.999 is too
// far from it for either difference from one.
#include <cmath>
#include <memory>
#include <vector>

#include "ops/core/update_rule.h"

namespace keras_sparse {
namespace {

class LazyAdam : public UpdateRule {
 public:
  LazyAdam(int64_t dim, float momentum, float velocity)
      : UpdateRule(
            "lazy_adam",
            RowSchema(dim, {{"momentum", false, momentum}, {"velocity", false, velocity}}, false)) {
  }

  int num_numbers() const override { return 4; }

  void BeginStep(int64_t step, const float* numbers) override {
    step_ = step;
    alpha_ = numbers[0];
    one_minus_beta_1_ = numbers[1];
    one_minus_beta_2_ = numbers[2];
    epsilon_ = numbers[3];
  }

  void Update(float* const* records, const float* const* gradients, int64_t n) const override {
    const int64_t dim = schema().dim();
    const float alpha = alpha_;
    const float one_minus_beta_1 = one_minus_beta_1_;
    const float one_minus_beta_2 = one_minus_beta_2_;
    const float epsilon = epsilon_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict momentum = records[i] + dim;
      float* __restrict velocity = records[i] + 2 * dim;
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < dim; ++j) {
        momentum[j] += (g[j] - momentum[j]) * one_minus_beta_1;
        velocity[j] += (g[j] * g[j] - velocity[j]) * one_minus_beta_2;
        row[j] -= alpha * momentum[j] / (std::sqrt(velocity[j]) + epsilon);
      }
    }
  }

 private:
  float alpha_ = 0;
  float one_minus_beta_1_ = 0;
  float one_minus_beta_2_ = 0;
  float epsilon_ = 0;
};

const bool kRegistered =
    UpdateRule::Register("lazy_adam", 2, [](int64_t dim, const std::vector<float>& slots) {
      return std::unique_ptr<UpdateRule>(new LazyAdam(dim, slots[0], slots[1]));
    });

}  // namespace
}  // namespace keras_sparse
