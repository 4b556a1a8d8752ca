// Records that miss thousands of steps.
#include "ops/core/optimizer/deferred_rule.h"

#include <tuple>

#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse::deferred_rule_test {

std::unique_ptr<UpdateRule> Create(RuleOptions options, int64_t dim) {
  options.dim = dim;
  std::unique_ptr<UpdateRule> rule;
  EXPECT_TRUE(IsOk(UpdateRule::Create(options, &rule)));
  return rule;
}

std::vector<float> NewRecord(const UpdateRule& rule, float row) {
  std::vector<float> record(static_cast<size_t>(rule.layout().record_bytes() / 4), row);
  rule.layout().InitializeSlots(record.data(), rule.step());
  return record;
}

std::vector<RuleCase> CasesThatMove() {
  std::vector<RuleCase> cases;
  for (const RuleCase& each : AllRuleCases()) {
    // Lion's momentum dies away, which the reference in double precision knows nothing of.
    if (each.dense && each.options.rule != "lion") cases.push_back(each);
  }
  return cases;
}

class RuleThatMoves : public ::testing::TestWithParam<RuleCase> {};

TEST_P(RuleThatMoves, MakesUpForThousandsOfStepsAtOnceOrAFewAtATime) {
  const RuleCase& rule_case = GetParam();
  const auto rule = Create(rule_case.options, 3);
  std::vector<float> at_once = NewRecord(*rule, 0.5f);
  std::vector<float> often = at_once;
  RecordParts parts = rule_case.Begin({0.5f, 0.5f, 0.5f});
  const std::vector<float> gradient = {1, -1e-6f, 30};
  for (int64_t number = 1; number <= 3000; ++number) {
    const double rate = 0.01 * (2 + std::sin(static_cast<double>(number) / 300));
    const ReferenceStep step = {number, InFloat(rate)};
    const bool has_gradient = number == 3;
    rule->BeginStep(rule_case.Numbers(step));
    if (has_gradient) {
      for (std::vector<float>* record : {&at_once, &often}) {
        float* records[] = {record->data()};
        const float* gradients[] = {gradient.data()};
        rule->CatchUp(record->data());
        rule->Update(records, gradients, 1);
      }
    }
    rule->FinishStep();
    std::vector<double> g(3);
    if (has_gradient) g.assign(gradient.begin(), gradient.end());
    rule_case.Step(step, g, &parts);
    if (number % 37 == 0) rule->CatchUp(often.data());
  }
  for (std::vector<float>* record : {&at_once, &often}) {
    rule->CatchUp(record->data());
    size_t at = 0;
    for (const std::vector<double>& part : parts) {
      for (const double expected : part) {
        const double size = std::abs(expected) + (at < 3 ? 0.1 : 0);
        EXPECT_NEAR((*record)[at], expected, 2e-5 * size + kLeastFloat) << "at " << at;
        ++at;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, RuleThatMoves, ::testing::ValuesIn(CasesThatMove()),
                         [](const auto& rule_case) { return rule_case.param.name; });

float Flushed(float x) { return std::abs(x) < kLeastFloat ? 0 : x; }

// Lion without a gradient, in floats that become zero below the least normal one, as they do on
// the threads of TensorFlow.
struct LionElement {
  double row = 0;
  float momentum;

  void Step(double rate, double weight_decay, float beta_1, float beta_2) {
    const float direction = Flushed(Flushed(momentum) * beta_1);
    row -= weight_decay * rate * row;
    row -= direction > 0 ? rate : direction < 0 ? -rate : 0;
    momentum = Flushed(Flushed(momentum) * beta_2);
  }
};

// After `gap` steps without a gradient, for rows of zeros and these momenta.
void CheckLion(const RuleCase& lion, const std::vector<float>& momenta, int64_t gap) {
  SCOPED_TRACE(lion.name + " over " + std::to_string(gap) + " steps");
  const auto rule = Create(lion.options, static_cast<int64_t>(momenta.size()));
  std::vector<float> record = NewRecord(*rule, 0);
  std::vector<LionElement> elements;
  for (size_t j = 0; j < momenta.size(); ++j) {
    record[momenta.size() + j] = momenta[j];
    elements.push_back({0, momenta[j]});
  }
  double greatest_rate = 0;
  for (int64_t step = 1; step <= gap; ++step) {
    const double rate = InFloat(0.01 * (2 + std::sin(static_cast<double>(step) / 100)));
    greatest_rate = std::max(greatest_rate, rate);
    rule->BeginStep({static_cast<float>(rate)});
    rule->FinishStep();
    for (LionElement& element : elements) {
      element.Step(rate, lion.options.weight_decay,
                   static_cast<float>(lion.options.constants.at("beta_1")),
                   static_cast<float>(lion.options.constants.at("beta_2")));
    }
  }
  rule->CatchUp(record.data());
  // Thousands of rounded products may be a step off.
  const double slack = gap < 500 ? 0 : 1.01 * greatest_rate;
  for (size_t j = 0; j < momenta.size(); ++j) {
    EXPECT_NEAR(record[j], elements[j].row, slack + 2e-6 * std::abs(elements[j].row))
        << "momentum " << momenta[j];
    EXPECT_NEAR(Flushed(record[momenta.size() + j]), elements[j].momentum,
                1e-3f * std::abs(elements[j].momentum) + kLeastFloat);
  }
}

TEST(Lion, StopsWhereItsMomentumIsTooSmallForAFloat) {
  const std::vector<float> momenta = {
      0,           1,       -1e-3f, 1e-10f, -1e-30f, 1e-36f, 1e-37f, -2e-38f, 1.1f * kLeastFloat,
      kLeastFloat, -1e-38f, 1e-39f, 1e-45f};
  for (const double weight_decay : {0.0, 0.05}) {
    RuleCase lion = LionCase("lion", 0.9, 0.99);
    lion.options.weight_decay = weight_decay;
    for (const int64_t gap : {1, 2, 3, 10, 100, 400, 3000, 9000}) CheckLion(lion, momenta, gap);
    // Each alone: rows in which nothing stops take another way.
    for (const float momentum : momenta) CheckLion(lion, {momentum}, 300);
  }
  CheckLion(LionCase("lion_95_98", 0.95, 0.98), momenta, 5000);
  CheckLion(LionCase("lion_1_5", 0.1, 0.5), momenta, 150);
}

TEST(Lion, StopsAfterThisManyStepsByHand) {
  // 2^-120 / 2 is 2^-121; five more halvings give 2^-126, the least float.
  const auto rule = Create(LionCase("lion", 0.5, 0.5).options, 1);
  std::vector<float> record = NewRecord(*rule, 0);
  record[1] = std::ldexp(1.0f, -120);
  for (int64_t step = 1; step <= 10; ++step) {
    rule->BeginStep({1});
    rule->FinishStep();
    float row = 0;
    rule->Read(record.data(), &row);
    EXPECT_EQ(row, -static_cast<float>(std::min<int64_t>(step, 6)));
  }
}

TEST(Lion, WithABetaOfZeroMovesOnceOrNever) {
  for (const auto& [beta_1, beta_2, moves] : {std::tuple{0.9, 0.0, 1.0f}, {0.0, 0.9, 0.0f}}) {
    const auto rule = Create(LionCase("lion", beta_1, beta_2).options, 2);
    std::vector<float> record = NewRecord(*rule, 0);
    record[2] = 1;
    record[3] = -1;
    for (int64_t step = 1; step <= 3; ++step) {
      rule->BeginStep({1});
      rule->FinishStep();
      std::vector<float> row(2);
      rule->Read(record.data(), row.data());
      EXPECT_EQ(row, (std::vector<float>{-moves, moves}));
    }
  }
}

}  // namespace keras_sparse::deferred_rule_test
