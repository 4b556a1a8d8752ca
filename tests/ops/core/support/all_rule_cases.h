// Each rule in each of its forms.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_ALL_RULE_CASES_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_ALL_RULE_CASES_H_

#include "tests/ops/core/support/adam_rule_cases.h"
#include "tests/ops/core/support/gradient_rule_cases.h"

namespace keras_sparse {

// Without weight decay and with some.
inline std::vector<RuleCase> AllRuleCases() {
  std::vector<RuleCase> cases = {
      SgdCase(),
      MomentumCase("momentum", 0.9, false),
      MomentumCase("momentum_nesterov", 0.9, true),
      MomentumCase("momentum_0", 0, false),
      MomentumCase("momentum_0_nesterov", 0, true),
      MomentumCase("momentum_1", 1, false),
      MomentumCase("momentum_99_nesterov", 0.99, true),
      AdagradCase(),
      RowWiseAdagradCase(),
      AdagradDecayCase(),
      RmsPropCase("rmsprop", "rmsprop", 0, false),
      RmsPropCase("rmsprop_centered", "rmsprop", 0, true),
      RmsPropCase("rmsprop_momentum", "rmsprop", 0.9, false),
      RmsPropCase("rmsprop_momentum_centered", "rmsprop", 0.8, true),
      RmsPropCase("lazy_rmsprop", "lazy_rmsprop", 0, false),
      RmsPropCase("lazy_rmsprop_momentum_centered", "lazy_rmsprop", 0.9, true),
      AdamCase("adam", "adam"),
      AdamCase("adam_8_95", "adam", 0.8, 0.95),
      AdamCase("adam_95_9", "adam", 0.95, 0.9),
      AdamCase("adam_99_999_epsilon", "adam", 0.99, 0.999, 1e-3),
      AdamCase("lazy_adam", "lazy_adam"),
      AdamCase("amsgrad", "amsgrad"),
      AdamCase("amsgrad_99", "amsgrad", 0.99, 0.9),
      AdamaxCase(),
      NadamCase(),
      AdadeltaCase(),
      LionCase("lion", 0.9, 0.99),
      LionCase("lion_95_98", 0.95, 0.98),
      FtrlCase("ftrl", 0.5, {}),
      FtrlCase("ftrl_0", 0, {0.01, 0.1, 0.01, 0.1}),
      FtrlCase("ftrl_3", 0.3, {0.01, 0.1, 0, 0.5}),
      FtrlCase("ftrl_8", 0.8, {0, 0, 0.1, 0}),
  };
  const size_t num_cases = cases.size();
  for (size_t i = 0; i < num_cases; ++i) {
    cases.push_back(cases[i]);
    cases.back().name += "_weight_decay";
    cases.back().options.weight_decay = 0.05;
  }
  return cases;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_ALL_RULE_CASES_H_
