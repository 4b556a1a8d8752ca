#include "ops/core/optimizer/rules/momentum.h"

#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

class Momentum : public ElementRule<MomentumElement> {
 public:
  explicit Momentum(const RuleOptions& options)
      : ElementRule(options, Untouched::kMove,
                    {{"momentum", Rounded(options.constants.at("momentum"))}}),
        momentum_(static_cast<float>(constant("momentum"))),
        nesterov_(constant("nesterov") != 0) {
    TrackMoves(momentum_, 1, 0);
  }

  MomentumElement element() const override {
    return {learning_rate_, decay_, momentum_, nesterov_};
  }

 protected:
  double move_weight() const override { return nesterov_ ? -momentum_ : -1; }

 private:
  float momentum_;
  bool nesterov_;
};

const bool kRegistered = UpdateRule::Register<Momentum>("momentum", {"momentum", "nesterov"});

}  // namespace
}  // namespace keras_sparse
