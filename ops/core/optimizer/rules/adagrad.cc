#include "ops/core/optimizer/rules/adagrad.h"

#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

class Adagrad : public ElementRule<AdagradElement> {
 public:
  explicit Adagrad(const RuleOptions& options)
      : ElementRule(
            options, Untouched::kDecay,
            {{"accumulator", 1, static_cast<float>(options.constants.at("initial_accumulator"))}}),
        epsilon_(static_cast<float>(constant("epsilon"))) {}

  AdagradElement element() const override { return {learning_rate_, decay_, epsilon_}; }

 private:
  float epsilon_;
};

const bool kRegistered =
    UpdateRule::Register<Adagrad>("adagrad", {"initial_accumulator", "epsilon"});

}  // namespace
}  // namespace keras_sparse
