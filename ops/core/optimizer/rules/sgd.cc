#include "ops/core/optimizer/rules/sgd.h"

#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

class Sgd : public ElementRule<SgdElement> {
 public:
  explicit Sgd(const RuleOptions& options) : ElementRule(options, Untouched::kDecay, {}) {}

  SgdElement element() const override { return {learning_rate_, decay_}; }

 protected:
};

const bool kRegistered = UpdateRule::Register<Sgd>("sgd", {});

}  // namespace
}  // namespace keras_sparse
