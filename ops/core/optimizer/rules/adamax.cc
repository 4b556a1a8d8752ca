// momentum += (g - momentum) * (1 - beta_1)
// norm      = max(beta_2 * norm, |g|)
// row       -= decay * row + alpha * momentum / (norm + epsilon)
//
// alpha = learning_rate / (1 - beta_1^step) comes with the step.
#include <algorithm>
#include <cmath>
#include <memory>

#include "ops/core/optimizer/deferred_rule.h"

namespace keras_sparse {
namespace {

class Adamax : public DeferredRule {
 public:
  explicit Adamax(const RuleOptions& options)
      : DeferredRule(options, Untouched::kMove,
                     {{"momentum", RoundedDecay(options.constants.at("beta_1"))},
                      {"norm", Rounded(options.constants.at("beta_2"))}}),
        one_minus_beta_1_(static_cast<float>(1 - constant("beta_1"))),
        beta_2_(static_cast<float>(constant("beta_2"))),
        epsilon_(static_cast<float>(constant("epsilon"))) {
    TrackMoves(RoundedDecay(options.constants.at("beta_1")),
               Rounded(options.constants.at("beta_2")), epsilon_);
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
    const float beta_2 = beta_2_;
    const float epsilon = epsilon_;
    for (int64_t i = 0; i < n; ++i) {
      float* __restrict row = records[i];
      float* __restrict momentum = records[i] + width;
      float* __restrict norm = records[i] + 2 * width;
      const float* __restrict g = gradients[i];
      for (int64_t j = 0; j < width; ++j) {
        momentum[j] += (g[j] - momentum[j]) * one_minus_beta_1;
        norm[j] = std::max(beta_2 * norm[j], std::abs(g[j]));
        row[j] -= decay * row[j] + alpha * momentum[j] / (norm[j] + epsilon);
      }
    }
  }

  double move_weight() const override { return alpha_; }

  void MoveRow(const Missed& missed, const float* record, float* row) const override {
    const float decay = missed.decay;
    const MissedMoves::Piece moves = missed.moves;
    const float epsilon = epsilon_;
    const float* momentum = record + dim();
    const float* norm = record + 2 * dim();
    for (int64_t j = 0; j < dim(); ++j) {
      row[j] = record[j] - (decay * record[j] + momentum[j] * moves.Over(norm[j], epsilon));
    }
  }

 private:
  float one_minus_beta_1_;
  float beta_2_;
  float epsilon_;
  float alpha_ = 0;
};

const bool kRegistered = UpdateRule::Register<Adamax>("adamax", {"beta_1", "beta_2", "epsilon"});

}  // namespace
}  // namespace keras_sparse
