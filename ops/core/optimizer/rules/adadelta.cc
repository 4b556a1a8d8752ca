#include "ops/core/optimizer/rules/adadelta.h"

#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

class Adadelta : public ElementRule<AdadeltaElement> {
 public:
  explicit Adadelta(const RuleOptions& options)
      : ElementRule(options, Untouched::kShrink,
                    {{"accumulated_grad", Rounded(options.constants.at("rho"))},
                     {"accumulated_delta_var", Rounded(options.constants.at("rho"))}}),
        rho_(static_cast<float>(constant("rho"))),
        one_minus_rho_(static_cast<float>(1 - constant("rho"))),
        epsilon_(static_cast<float>(constant("epsilon"))) {}

  AdadeltaElement element() const override {
    return {learning_rate_, decay_, rho_, one_minus_rho_, epsilon_};
  }

 private:
  float rho_;
  float one_minus_rho_;
  float epsilon_;
};

const bool kRegistered = UpdateRule::Register<Adadelta>("adadelta", {"rho", "epsilon"});

}  // namespace
}  // namespace keras_sparse
