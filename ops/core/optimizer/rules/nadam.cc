#include "ops/core/optimizer/rules/nadam.h"

#include <cmath>

#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

class Nadam : public ElementRule<NadamElement> {
 public:
  explicit Nadam(const RuleOptions& options)
      : ElementRule(options, Untouched::kMove,
                    {{"momentum", Rounded(options.constants.at("beta_1"))},
                     {"velocity", Rounded(options.constants.at("beta_2"))}}),
        one_minus_beta_1_(1 - static_cast<float>(constant("beta_1"))),
        one_minus_beta_2_(1 - static_cast<float>(constant("beta_2"))),
        epsilon_(static_cast<float>(constant("epsilon"))) {
    TrackMoves(Rounded(options.constants.at("beta_1")),
               std::sqrt(Rounded(options.constants.at("beta_2"))), epsilon_);
  }

  int num_numbers() const override { return 4; }

  NadamElement element() const override {
    return {alpha_, gamma_, 1 / bias_, decay_, one_minus_beta_1_, one_minus_beta_2_, epsilon_};
  }

 protected:
  void SetNumbers(const float* numbers) override {
    alpha_ = numbers[0];
    gamma_ = numbers[1];
    bias_ = numbers[2];
  }

  // Multiplied by bias, so that the velocity stands alone: see DeferredUpdates.
  double move_weight() const override { return static_cast<double>(alpha_) * bias_; }
  double move_offset() const override { return bias_; }

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
