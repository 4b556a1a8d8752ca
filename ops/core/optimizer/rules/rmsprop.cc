#include "ops/core/optimizer/rules/rmsprop.h"

#include <memory>
#include <vector>

#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

class RmsProp : public DeferredRule {
 public:
  RmsProp(const RuleOptions& options, bool dense)
      : DeferredRule(options, UntouchedOf(options, dense), SlotsOf(options)),
        momentum_(static_cast<float>(constant("momentum"))),
        rho_(static_cast<float>(constant("rho"))),
        one_minus_rho_(static_cast<float>(1 - constant("rho"))),
        epsilon_(static_cast<float>(constant("epsilon"))) {
    if (defers_moves() && momentum_ > 0) TrackMoves(momentum_, 1, 0);
  }

 protected:
  double move_weight() const override { return 1; }

  float momentum_;
  float rho_;
  float one_minus_rho_;
  float epsilon_;

 private:
  static Untouched UntouchedOf(const RuleOptions& options, bool dense) {
    if (!dense) return Untouched::kStay;
    return options.constants.at("momentum") > 0 ? Untouched::kMove : Untouched::kShrink;
  }

  static std::vector<DecayingSlot> SlotsOf(const RuleOptions& options) {
    const double rho = Rounded(options.constants.at("rho"));
    std::vector<DecayingSlot> slots = {{"velocity", rho}};
    if (options.constants.at("momentum") > 0) {
      slots.push_back({"momentum", Rounded(options.constants.at("momentum"))});
    }
    if (options.constants.at("centered") != 0) {
      slots.push_back({"average_gradient", rho});
    }
    return slots;
  }
};

template <bool kMomentum, bool kCentered>
class RmsPropOf : public ElementRule<RmsPropElement<kMomentum, kCentered>, RmsProp> {
 public:
  using ElementRule<RmsPropElement<kMomentum, kCentered>, RmsProp>::ElementRule;

  RmsPropElement<kMomentum, kCentered> element() const override {
    return {this->learning_rate_, this->decay_,    this->rho_,
            this->one_minus_rho_, this->momentum_, this->epsilon_};
  }
};

template <bool kMomentum>
std::unique_ptr<UpdateRule> MakeRmsPropOf(const RuleOptions& options, bool dense) {
  if (options.constants.at("centered") != 0) {
    return std::make_unique<RmsPropOf<kMomentum, true>>(options, dense);
  }
  return std::make_unique<RmsPropOf<kMomentum, false>>(options, dense);
}

std::unique_ptr<UpdateRule> MakeRmsProp(const RuleOptions& options, bool dense) {
  return options.constants.at("momentum") > 0 ? MakeRmsPropOf<true>(options, dense)
                                              : MakeRmsPropOf<false>(options, dense);
}

const std::vector<std::string> kRmsPropConstants = {"rho", "momentum", "epsilon", "centered"};

const bool kRegistered =
    UpdateRule::Register("rmsprop", kRmsPropConstants,
                         [](const RuleOptions& options) { return MakeRmsProp(options, true); }) &&
    UpdateRule::Register("lazy_rmsprop", kRmsPropConstants,
                         [](const RuleOptions& options) { return MakeRmsProp(options, false); });

}  // namespace
}  // namespace keras_sparse
