// momentum += (g - momentum) * (1 - beta_1)
// velocity += (g^2 - velocity) * (1 - beta_2)
// row       -= decay * row + alpha * momentum / (sqrt(velocity) + epsilon)
//
// alpha = learning_rate * sqrt(1 - beta_2^step) / (1 - beta_1^step) comes with the step.
// "adam" has dense semantics; "lazy_adam" changes only what got a gradient.
#include <cmath>
#include <memory>

#include "ops/core/optimizer/deferred_rule.h"

namespace keras_sparse {
namespace {

class Adam : public DeferredRule {
 public:
  Adam(const RuleOptions& options, Untouched untouched)
      : DeferredRule(options, untouched,
                     {{"momentum", RoundedDecay(options.constants.at("beta_1"))},
                      {"velocity", RoundedDecay(options.constants.at("beta_2"))}}),
        one_minus_beta_1_(static_cast<float>(1 - constant("beta_1"))),
        one_minus_beta_2_(static_cast<float>(1 - constant("beta_2"))),
        epsilon_(static_cast<float>(constant("epsilon"))) {
    if (defers_moves())
      TrackMoves(RoundedDecay(options.constants.at("beta_1")),
                 std::sqrt(RoundedDecay(options.constants.at("beta_2"))), epsilon_);
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
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < width; ++j) {
        momentum[j] += (g[j] - momentum[j]) * one_minus_beta_1;
        velocity[j] += (g[j] * g[j] - velocity[j]) * one_minus_beta_2;
        row[j] -= decay * row[j] + alpha * momentum[j] / (std::sqrt(velocity[j]) + epsilon);
      }
    }
  }

  double move_weight() const override { return alpha_; }

  void MoveRow(const Missed& missed, const float* record, float* row) const override {
    MoveByMomentum(missed, record, epsilon_, row);
  }

 private:
  float one_minus_beta_1_;
  float one_minus_beta_2_;
  float epsilon_;
  float alpha_ = 0;
};

const std::vector<std::string> kConstants = {"beta_1", "beta_2", "epsilon"};

const bool kRegistered =
    UpdateRule::Register("adam", kConstants,
                         [](const RuleOptions& options) {
                           return std::unique_ptr<UpdateRule>(new Adam(options, Untouched::kMove));
                         }) &&
    UpdateRule::Register("lazy_adam", kConstants, [](const RuleOptions& options) {
      return std::unique_ptr<UpdateRule>(new Adam(options, Untouched::kStay));
    });

}  // namespace
}  // namespace keras_sparse
