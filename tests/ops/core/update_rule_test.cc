#include "ops/core/update_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/ops/core/reference.h"
#include "tests/ops/core/table_testing.h"

namespace keras_sparse {
namespace {

// row, slots (one value each of one element) and the element's gradient, in double precision.
using Element = std::vector<double>;
using ReferenceRule = std::function<void(int64_t step, double g, Element* element)>;

struct RuleCase {
  std::string rule;
  std::vector<float> slots;
  std::function<std::vector<float>(int64_t step)> numbers;
  ReferenceRule update;
};

RuleCase Sgd() {
  return {
      "sgd",
      {},
      [](int64_t step) { return std::vector<float>{0.5f / static_cast<float>(step)}; },
      [](int64_t step, double g, Element* e) { (*e)[0] -= 0.5 / static_cast<double>(step) * g; }};
}

RuleCase Adagrad() {
  return {"adagrad",
          {0.1f},
          [](int64_t) { return std::vector<float>{0.05f, 1e-7f}; },
          [](int64_t, double g, Element* e) {
            (*e)[1] += g * g;
            (*e)[0] -= 0.05 * g / std::sqrt((*e)[1] + 1e-7);
          }};
}

double Alpha(int64_t step) {
  const auto t = static_cast<double>(step);
  return 0.01 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
}

RuleCase LazyAdam() {
  return {"lazy_adam",
          {0, 0},
          [](int64_t step) {
            return std::vector<float>{static_cast<float>(Alpha(step)), 0.1f, 0.001f, 1e-7f};
          },
          [](int64_t step, double g, Element* e) {
            (*e)[1] += (g - (*e)[1]) * 0.1;
            (*e)[2] += (g * g - (*e)[2]) * 0.001;
            (*e)[0] -= Alpha(step) * (*e)[1] / (std::sqrt((*e)[2]) + 1e-7);
          }};
}

class EveryRule : public ::testing::TestWithParam<RuleCase> {};

TEST_P(EveryRule, FollowsItsMathOverManyStepsWithRepeatedIds) {
  const RuleCase& rule = GetParam();
  for (const int64_t dim : {1, 5, 33}) {
    const TableOptions options = Dynamic(dim);
    const auto table = OpenWithRule(options, rule.rule, rule.slots);
    std::map<int64_t, std::vector<Element>> reference;
    for (int64_t step = 1; step <= 50; ++step) {
      // About half of the ids repeat; most steps leave most rows alone.
      const auto seed = static_cast<uint64_t>(step);
      const std::vector<int64_t> ids = RandomIds(40, -30, 30, seed);
      const std::vector<float> grads = RandomFloats(40 * dim, seed + 1000);
      ASSERT_TRUE(IsOk(Apply(table.get(), {rule.rule, step, rule.numbers(step)}, ids, grads)));
      for (const auto& [id, sum] : ReferenceMerge(ids, NoBags(ids), grads, dim)) {
        auto& elements = reference[id];
        if (elements.empty()) {
          for (const float value : InitialRow(options, id)) {
            elements.push_back({value});
            for (const float slot : rule.slots) elements.back().push_back(slot);
          }
        }
        for (size_t j = 0; j < elements.size(); ++j) rule.update(step, sum[j], &elements[j]);
      }
    }
    const Exported exported = ExportAll(*table);
    ASSERT_EQ(exported.size(), reference.size());
    for (const auto& [id, elements] : reference) {
      std::vector<double> record;
      for (size_t part = 0; part <= rule.slots.size(); ++part) {
        for (const Element& element : elements) record.push_back(element[part]);
      }
      ExpectNear(exported.at(id).record, record, 2e-5);
    }
  }
}

TEST_P(EveryRule, RefusesAWrongCountOfNumbersOrSlots) {
  const RuleCase& rule = GetParam();
  const auto table = OpenWithRule(Dynamic(2), rule.rule, rule.slots);
  std::vector<float> numbers = rule.numbers(1);
  numbers.push_back(0);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "`numbers` of rule '" + rule.rule + "'",
                        Apply(table.get(), {rule.rule, 1, numbers}, {1}, {1, 1})));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "`numbers` of rule '" + rule.rule + "'",
                        Apply(table.get(), {rule.rule, 1, {}}, {1}, {1, 1})));
  std::vector<float> slots = rule.slots;
  slots.push_back(0);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "for rule '" + rule.rule + "'",
                        table->SetRule(rule.rule, slots, Inline())));
  EXPECT_EQ(table->size(), 0);
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRule, ::testing::Values(Sgd(), Adagrad(), LazyAdam()),
                         [](const auto& rule_case) { return rule_case.param.rule; });

TEST(UpdateRule, RefusesAnUnknownNameByNamingTheKnownOnes) {
  std::unique_ptr<UpdateRule> rule;
  const Status status = UpdateRule::Create("adamax", 2, {}, &rule);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "'adagrad', 'lazy_adam'", status));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "rule='adamax'", status));
}

TEST(UpdateRule, TakesANameOnce) {
  const auto none = [](int64_t dim, const std::vector<float>&) { return UpdateRule::None(dim); };
  EXPECT_FALSE(UpdateRule::Register("sgd", 0, none));
}

TEST(RowSchema, CountsRowSlotsAndStepWord) {
  const RowSchema schema(5, {{"momentum", false, 0}, {"norm", true, 1}}, true);
  EXPECT_EQ(schema.record_floats(), 11);
  EXPECT_EQ(schema.record_bytes(), 48);
  EXPECT_EQ(RowSchema(5, {}, false).record_bytes(), 20);
}

TEST(RowSchema, KeepsTheStepInItsWordAlone) {
  const RowSchema schema(1, {{"norm", true, 3}}, true);
  std::vector<float> record = {7, 0, 0, 9};
  schema.InitializeSlots(record.data(), 4000000000);
  EXPECT_EQ(schema.LastStep(record.data()), 4000000000);
  EXPECT_EQ(record[0], 7);
  EXPECT_EQ(record[1], 3);
  EXPECT_EQ(record[3], 9);
}

}  // namespace
}  // namespace keras_sparse
