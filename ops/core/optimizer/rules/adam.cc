#include "ops/core/optimizer/rules/adam.h"

#include <cmath>
#include <memory>

#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

class Adam : public ElementRule<AdamElement> {
 public:
  Adam(const RuleOptions& options, Untouched untouched)
      : ElementRule(options, untouched,
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

  AdamElement element() const override {
    return {alpha_, decay_, one_minus_beta_1_, one_minus_beta_2_, epsilon_};
  }

 protected:
  void SetNumbers(const float* numbers) override { alpha_ = numbers[0]; }

  double move_weight() const override { return alpha_; }

 private:
  float one_minus_beta_1_;
  float one_minus_beta_2_;
  float epsilon_;
  float alpha_ = 0;
};

const std::vector<std::string> kAdamConstants = {"beta_1", "beta_2", "epsilon"};

const bool kRegistered =
    UpdateRule::Register("adam", kAdamConstants,
                         [](const RuleOptions& options) {
                           return std::unique_ptr<UpdateRule>(new Adam(options, Untouched::kMove));
                         }) &&
    UpdateRule::Register("lazy_adam", kAdamConstants, [](const RuleOptions& options) {
      return std::unique_ptr<UpdateRule>(new Adam(options, Untouched::kStay));
    });

}  // namespace
}  // namespace keras_sparse
