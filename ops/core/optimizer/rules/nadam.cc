// momentum += (g - momentum) * (1 - beta_1)
// velocity += (g^2 - velocity) * (1 - beta_2)
// row       -= decay * row + (alpha * momentum + gamma * g) / (sqrt(velocity) / bias + epsilon)
//
// With the step come bias = sqrt(1 - beta_2^step) and, u_t being beta_1 * (1 - 0.96^t / 2) and U_t
// the product of u_1 to u_t,
//     alpha = learning_rate * u_(t+1) / (1 - U_(t+1))
//     gamma = learning_rate * (1 - u_t) / (1 - U_t)
#include <cmath>
#include <memory>

#include "ops/core/optimizer/deferred_rule.h"

namespace keras_sparse {
namespace {

class Nadam : public DeferredRule {
 public:
  explicit Nadam(const RuleOptions& options)
      : DeferredRule(options, Untouched::kMove,
                     {{"momentum", Rounded(options.constants.at("beta_1"))},
                      {"velocity", Rounded(options.constants.at("beta_2"))}}),
        one_minus_beta_1_(1 - static_cast<float>(constant("beta_1"))),
        one_minus_beta_2_(1 - static_cast<float>(constant("beta_2"))),
        epsilon_(static_cast<float>(constant("epsilon"))) {
    TrackMoves(Rounded(options.constants.at("beta_1")),
               std::sqrt(Rounded(options.constants.at("beta_2"))), epsilon_);
  }

  int num_numbers() const override { return 4; }

 protected:
  void SetNumbers(const float* numbers) override {
    alpha_ = numbers[0];
    gamma_ = numbers[1];
    bias_ = numbers[2];
  }

  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    const int64_t width = dim();
    const float decay = decay_;
    const float alpha = alpha_;
    const float gamma = gamma_;
    const float inverse_bias = 1 / bias_;
    const float one_minus_beta_1 = one_minus_beta_1_;
    const float one_minus_beta_2 = one_minus_beta_2_;
    const float epsilon = epsilon_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict momentum = records[i] + width;
      float* __restrict velocity = records[i] + 2 * width;
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < width; ++j) {
        momentum[j] += (g[j] - momentum[j]) * one_minus_beta_1;
        velocity[j] += (g[j] * g[j] - velocity[j]) * one_minus_beta_2;
        row[j] -= decay * row[j] + (alpha * momentum[j] + gamma * g[j]) /
                                       (std::sqrt(velocity[j]) * inverse_bias + epsilon);
      }
    }
  }

  // Times bias, so that the velocity stands alone: see MissedMoves.
  double move_weight() const override { return static_cast<double>(alpha_) * bias_; }
  double move_offset() const override { return bias_; }

  void MoveRow(const Missed& missed, const float* record, float* row) const override {
    MoveByMomentum(missed, record, epsilon_, row);
  }

 private:
  float one_minus_beta_1_;
  float one_minus_beta_2_;
  float epsilon_;
  float alpha_ = 0;
  float gamma_ = 0;
  float bias_ = 1;
};

const bool kRegistered = UpdateRule::Register<Nadam>("nadam", {"beta_1", "beta_2", "epsilon"});

}  // namespace
}  // namespace keras_sparse
