// momentum    += (g - momentum) * (1 - beta_1)
// velocity    += (g^2 - velocity) * (1 - beta_2)
// velocity_hat = max(velocity_hat, velocity)
// row          -= decay * row + alpha * momentum / (sqrt(velocity_hat) + epsilon)
//
// alpha = learning_rate * sqrt(1 - beta_2^step) / (1 - beta_1^step) comes with the step. Without a
// gradient velocity only shrinks and velocity_hat stays, so missed moves are a geometric sum.
#include <algorithm>
#include <cmath>
#include <memory>

#include "ops/core/optimizer/deferred_rule.h"

namespace keras_sparse {
namespace {

class Amsgrad : public DeferredRule {
 public:
  explicit Amsgrad(const RuleOptions& options)
      : DeferredRule(options, Untouched::kMove,
                     {{"momentum", RoundedDecay(options.constants.at("beta_1"))},
                      {"velocity", RoundedDecay(options.constants.at("beta_2"))},
                      {"velocity_hat", 1}}),
        one_minus_beta_1_(static_cast<float>(1 - constant("beta_1"))),
        one_minus_beta_2_(static_cast<float>(1 - constant("beta_2"))),
        epsilon_(static_cast<float>(constant("epsilon"))) {
    TrackMoves(RoundedDecay(options.constants.at("beta_1")), 1, 0);
  }

  int num_numbers() const override { return 2; }

 protected:
  void SetNumbers(const float* numbers) override { alpha_ = numbers[0]; }

  void UpdateRecords(float* const* records, const float* const* gradients,
                     int64_t n) const override {
    const int64_t width = dim();
    const float decay = decay_;
    const float alpha = alpha_;
    const float one_minus_beta_1 = one_minus_beta_1_;
    const float one_minus_beta_2 = one_minus_beta_2_;
    const float epsilon = epsilon_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict momentum = records[i] + width;
      float* __restrict velocity = records[i] + 2 * width;
      float* __restrict velocity_hat = records[i] + 3 * width;
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < width; ++j) {
        momentum[j] += (g[j] - momentum[j]) * one_minus_beta_1;
        velocity[j] += (g[j] * g[j] - velocity[j]) * one_minus_beta_2;
        velocity_hat[j] = std::max(velocity_hat[j], velocity[j]);
        row[j] -= decay * row[j] + alpha * momentum[j] / (std::sqrt(velocity_hat[j]) + epsilon);
      }
    }
  }

  double move_weight() const override { return alpha_; }

  void MoveRow(const Missed& missed, const float* record, float* row) const override {
    const float decay = missed.decay;
    const float moves = missed.moves.total;
    const float epsilon = epsilon_;
    const float* momentum = record + dim();
    const float* velocity_hat = record + 3 * dim();
    for (int64_t j = 0; j < dim(); ++j) {
      row[j] = record[j] -
               (decay * record[j] + moves * momentum[j] / (std::sqrt(velocity_hat[j]) + epsilon));
    }
  }

 private:
  float one_minus_beta_1_;
  float one_minus_beta_2_;
  float epsilon_;
  float alpha_ = 0;
};

const bool kRegistered = UpdateRule::Register<Amsgrad>("amsgrad", {"beta_1", "beta_2", "epsilon"});

}  // namespace
}  // namespace keras_sparse
