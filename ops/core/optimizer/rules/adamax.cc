#include "ops/core/optimizer/rules/adamax.h"

#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

class Adamax : public ElementRule<AdamaxElement> {
 public:
  explicit Adamax(const RuleOptions& options)
      : ElementRule(options, Untouched::kMove,
                    {{"momentum", RoundedDecay(options.constants.at("beta_1"))},
                     {"norm", Rounded(options.constants.at("beta_2"))}}),
        one_minus_beta_1_(static_cast<float>(1 - constant("beta_1"))),
        beta_2_(static_cast<float>(constant("beta_2"))),
        epsilon_(static_cast<float>(constant("epsilon"))) {
    TrackMoves(RoundedDecay(options.constants.at("beta_1")),
               Rounded(options.constants.at("beta_2")), epsilon_);
  }

  int num_numbers() const override { return 2; }

  AdamaxElement element() const override {
    return {alpha_, decay_, one_minus_beta_1_, beta_2_, epsilon_};
  }

 protected:
  void SetNumbers(const float* numbers) override { alpha_ = numbers[0]; }

  double move_weight() const override { return alpha_; }

 private:
  float one_minus_beta_1_;
  float beta_2_;
  float epsilon_;
  float alpha_ = 0;
};

const bool kRegistered = UpdateRule::Register<Adamax>("adamax", {"beta_1", "beta_2", "epsilon"});

}  // namespace
}  // namespace keras_sparse
