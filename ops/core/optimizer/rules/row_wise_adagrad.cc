#include "ops/core/optimizer/rules/row_wise_adagrad.h"

#include "ops/core/optimizer/element_rule.h"

namespace keras_sparse {
namespace {

class RowWiseAdagrad : public ElementRule<RowWiseAdagradElement, UpdateRule> {
 public:
  explicit RowWiseAdagrad(const RuleOptions& options)
      : ElementRule(
            options,
            RecordLayout(options.dim,
                         {{"row_accumulator", true,
                           static_cast<float>(options.constants.at("initial_accumulator"))}},
                         false)),
        epsilon_(static_cast<float>(constant("epsilon"))) {}

  RowWiseAdagradElement element() const override { return {learning_rate_, decay_, epsilon_}; }

 private:
  float epsilon_;
};

const bool kRegistered =
    UpdateRule::Register<RowWiseAdagrad>("row_wise_adagrad", {"initial_accumulator", "epsilon"});

}  // namespace
}  // namespace keras_sparse
