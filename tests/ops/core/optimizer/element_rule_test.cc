#include "ops/core/optimizer/element_rule.h"

#include <utility>

#include "ops/core/math/dot.h"
#include "ops/core/optimizer/rules/adadelta.h"
#include "ops/core/optimizer/rules/adagrad.h"
#include "ops/core/optimizer/rules/adagrad_decay.h"
#include "ops/core/optimizer/rules/adam.h"
#include "ops/core/optimizer/rules/adamax.h"
#include "ops/core/optimizer/rules/amsgrad.h"
#include "ops/core/optimizer/rules/ftrl.h"
#include "ops/core/optimizer/rules/lion.h"
#include "ops/core/optimizer/rules/momentum.h"
#include "ops/core/optimizer/rules/nadam.h"
#include "ops/core/optimizer/rules/rmsprop.h"
#include "ops/core/optimizer/rules/row_wise_adagrad.h"
#include "ops/core/optimizer/rules/sgd.h"
#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse::element_rule_test {

constexpr int64_t kDim = 37;

// As a kernel does it: a column by itself, the last one first.
template <typename Element, size_t... kSlots>
void UpdateColumnsOfKernel(const Element& element, const float* g, float* record,
                           std::index_sequence<kSlots...> /*slots*/) {
  for (int64_t j = kDim - 1; j >= 0; --j) {
    element(g[j], record + j, (record + static_cast<int64_t>(kSlots + 1) * kDim + j)...);
  }
}

// Updates the record if the rule has such an element.
template <typename Element>
bool UpdateBy(const UpdateRule& rule, const float* g, float* record) {
  const auto* source = dynamic_cast<const ElementSource<Element>*>(&rule);
  if (source == nullptr) return false;
  const Element element = source->element();
  constexpr auto kSlots = std::make_index_sequence<Element::kSlots>();
  if constexpr (Element::kRowSlots == 0) {
    UpdateColumnsOfKernel(element, g, record, kSlots);
  } else {
    const auto mean_square = [g] { return Dot(g, g, kDim) / static_cast<float>(kDim); };
    float slot = record[(1 + Element::kSlots) * kDim];
    const auto of_row = element.OfRow(mean_square, &slot);
    record[(1 + Element::kSlots) * kDim] = slot;
    UpdateColumnsOfKernel(of_row, g, record, kSlots);
  }
  return true;
}

template <typename... Elements>
int UpdateByOneOf(const UpdateRule& rule, const float* g, float* record) {
  return (static_cast<int>(UpdateBy<Elements>(rule, g, record)) + ...);
}

class EveryElement : public ::testing::TestWithParam<RuleCase> {};

TEST_P(EveryElement, GivesAKernelTheBitsOfTheRule) {
  RuleOptions options = GetParam().options;
  options.dim = kDim;
  std::unique_ptr<UpdateRule> rule;
  ASSERT_TRUE(IsOk(UpdateRule::Create(options, &rule)));
  std::vector<float> record = RandomFloats(rule->layout().record_words(), 1);
  rule->layout().InitializeSlots(record.data(), 0);
  for (int64_t step = 1; step <= 5; ++step) {
    rule->BeginStep(GetParam().Numbers({step, 0.02 * static_cast<double>(step)}));
    const std::vector<float> g = RandomFloats(kDim, static_cast<uint64_t>(step + 1));
    std::vector<float> expected = record;
    float* records = expected.data();
    const float* gradients = g.data();
    rule->Update(&records, &gradients, 1);
    const int num_elements =
        UpdateByOneOf<SgdElement, MomentumElement, AdagradElement, AdagradDecayElement,
                      RowWiseAdagradElement, AdamElement, AmsgradElement, AdamaxElement,
                      NadamElement, AdadeltaElement, RmsPropElement<false, false>,
                      RmsPropElement<false, true>, RmsPropElement<true, false>,
                      RmsPropElement<true, true>, LionElement<false>, LionElement<true>,
                      FtrlElement<false>, FtrlElement<true>>(*rule, g.data(), record.data());
    ASSERT_EQ(num_elements, 1) << "name the element above, once: " << GetParam().name;
    rule->layout().SetLastStep(record.data(), step);
    rule->FinishStep();
    ASSERT_EQ(Bits(record), Bits(expected)) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryElement, ::testing::ValuesIn(AllRuleCases()),
                         [](const auto& rule_case) { return rule_case.param.name; });

}  // namespace keras_sparse::element_rule_test
