#include "ops/core/optimizer/update_rule.h"

#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::update_rule_test {

std::unique_ptr<UpdateRule> Create(const RuleOptions& options) {
  std::unique_ptr<UpdateRule> rule;
  EXPECT_TRUE(IsOk(UpdateRule::Create(options, &rule)));
  return rule;
}

// One case a rule, without weight decay.
std::vector<RuleCase> OneCaseARule() {
  std::map<std::string, RuleCase> cases;
  for (const RuleCase& each : AllRuleCases()) cases.emplace(each.options.rule, each);
  std::vector<RuleCase> result;
  for (const auto& [rule, each] : cases) result.push_back(each);
  return result;
}

class EachRule : public ::testing::TestWithParam<RuleCase> {};

TEST_P(EachRule, RefusesConstantsThatAreNotItsOwn) {
  std::unique_ptr<UpdateRule> rule;
  const RuleOptions& right = GetParam().options;
  std::vector<RuleOptions> wrong = {right};
  wrong[0].constants["warmth"] = 1;  // one too many
  for (const auto& constant : right.constants) {
    wrong.push_back(right);
    wrong.back().constants.erase(constant.first);  // one too few
    wrong.push_back(wrong.back());
    wrong.back().constants[constant.first + "s"] = constant.second;  // another name
  }
  for (const RuleOptions& options : wrong) {
    const Status status = UpdateRule::Create(options, &rule);
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "`constants` of rule '" + right.rule + "' must be (", status));
    for (const auto& constant : right.constants) {
      EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "'" + constant.first + "'", status));
    }
    EXPECT_EQ(rule, nullptr);
  }
}

TEST_P(EachRule, RefusesAnotherCountOfNumbersAndChangesNothing) {
  const auto table = OpenWithRule(Options(3, 2), GetParam().options);
  const Exported before = ExportAll(*table);
  const std::vector<float> right = GetParam().Numbers({1, 0.1});
  std::vector<float> more = right;
  more.push_back(0);
  for (const std::vector<float>& numbers : {std::vector<float>(), more}) {
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "`numbers` of rule '" + GetParam().options.rule + "' must be " +
                              std::to_string(right.size()) +
                              ". Received: " + std::to_string(numbers.size()),
                          Apply(table.get(), numbers, {1}, {1, 1})));
  }
  EXPECT_EQ(ExportAll(*table), before);
}

TEST_P(EachRule, RefusesADecayThatLeavesNothingOfARow) {
  RuleOptions options = GetParam().options;
  options.weight_decay = 0.5;
  const auto rule = Create(options);
  for (const double rate : {2.0, 3.0, 1e30, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(FailsWith(
        StatusCode::kInvalidArgument,
        "`weight_decay` times the learning rate must be below 1, or a step would take all of a row "
        "and more; lower one of them. Received: "
        "weight_decay=0.500000",
        rule->CheckNumbers(GetParam().Numbers({1, rate}))));
  }
  EXPECT_TRUE(IsOk(rule->CheckNumbers(GetParam().Numbers({1, 1.9}))));
  EXPECT_TRUE(IsOk(Create(GetParam().options)->CheckNumbers(GetParam().Numbers({1, 2}))));
}

TEST_P(EachRule, LaysOutItsSlots) {
  RuleOptions options = GetParam().options;
  options.dim = 3;
  const auto rule = Create(options);
  const RecordLayout& layout = rule->layout();
  ASSERT_EQ(layout.slots().size(), GetParam().slots.size());
  for (size_t s = 0; s < layout.slots().size(); ++s) {
    EXPECT_EQ(layout.slots()[s].per_row, GetParam().slots[s].per_row);
    EXPECT_EQ(layout.slots()[s].initial_value, static_cast<float>(GetParam().slots[s].value));
  }
  EXPECT_EQ(layout.dim(), 3);
}

TEST_P(EachRule, KeepsAStepOnlyForWhatHappensWithoutAGradient) {
  RuleOptions options = GetParam().options;
  const bool only_decay_happens = options.rule == "sgd" || options.rule == "adagrad";
  EXPECT_EQ(Create(options)->defers_moves(), GetParam().dense && !only_decay_happens)
      << "name a rule above that moves no row without a gradient: " << options.rule;
  options.weight_decay = 0.1;
  EXPECT_EQ(Create(options)->defers_moves(), GetParam().dense);
}

TEST_P(EachRule, CountsTheStepsThatHaveFinished) {
  const auto rule = Create(GetParam().options);
  EXPECT_EQ(rule->step(), 0);
  for (int64_t step = 1; step <= 3; ++step) {
    rule->BeginStep(GetParam().Numbers({step, 0.1}));
    EXPECT_EQ(rule->step(), step - 1);
    rule->FinishStep();
    EXPECT_EQ(rule->step(), step);
  }
}

TEST_P(EachRule, ReadsWhatCatchingUpWouldMakeOfARecord) {
  for (const double weight_decay : {0.0, 0.01}) {
    RuleOptions options = GetParam().options;
    options.dim = 9;
    options.weight_decay = weight_decay;
    const auto rule = Create(options);
    const RecordLayout& layout = rule->layout();
    std::vector<float> record(static_cast<size_t>(layout.record_bytes() / 4), 1.0f);
    layout.InitializeSlots(record.data(), 0);
    const std::vector<float> gradient = RandomFloats(9, 1);
    const float* gradients[] = {gradient.data()};
    for (int64_t step = 1; step <= 300; ++step) {
      rule->BeginStep(GetParam().Numbers({step, 0.1}));
      float* records[] = {record.data()};
      if (step == 3) {
        rule->CatchUp(record.data());
        rule->Update(records, gradients, 1);
      }
      rule->FinishStep();
      EXPECT_EQ(rule->IsCurrent(record.data()), !rule->defers_moves() || step == 3);
      const std::vector<float> before = record;
      std::vector<float> read(9);
      rule->Read(record.data(), read.data());
      ASSERT_EQ(Bits(record), Bits(before)) << "reading must not write";
      std::vector<float> caught_up = record;
      rule->CatchUp(caught_up.data());
      EXPECT_TRUE(rule->IsCurrent(caught_up.data()));
      ASSERT_EQ(Bits(read), Bits({caught_up.begin(), caught_up.begin() + 9}));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, EachRule, ::testing::ValuesIn(OneCaseARule()),
                         [](const auto& rule_case) { return rule_case.param.options.rule; });

TEST(UpdateRule, RefusesAnUnknownNameByNamingTheKnownOnes) {
  std::unique_ptr<UpdateRule> rule;
  const Status status = UpdateRule::Create({"adamin", 2, {}}, &rule);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "`rule` must be one of (", status));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "Received: rule='adamin'", status));
  for (const RuleCase& each : OneCaseARule()) {
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "'" + each.options.rule + "'", status));
  }
}

TEST(UpdateRule, TakesANameOnce) {
  const auto none = [](const RuleOptions& options) { return UpdateRule::None(options.dim); };
  EXPECT_FALSE(UpdateRule::Register("sgd", {}, none));
}

TEST(UpdateRule, OfATableWithoutAnOptimizerHasNoSlotsAndMovesNothing) {
  const auto rule = UpdateRule::None(2);
  EXPECT_EQ(rule->name(), "none");
  EXPECT_EQ(rule->layout().record_bytes(), 8);
  EXPECT_FALSE(rule->defers_moves());
  std::vector<float> record = {3, 4};
  float* records[] = {record.data()};
  const float* gradients[] = {record.data()};
  ASSERT_TRUE(IsOk(rule->CheckNumbers({1})));
  rule->BeginStep({1});
  rule->Update(records, gradients, 1);
  rule->FinishStep();
  EXPECT_EQ(record, (std::vector<float>{3, 4}));
}

TEST(RecordLayout, CountsRowSlotsAndStepWord) {
  const RecordLayout layout(5, {{"momentum", false, 0}, {"norm", true, 1}}, true);
  EXPECT_EQ(layout.record_floats(), 11);
  EXPECT_EQ(layout.record_bytes(), 48);
  EXPECT_EQ(RecordLayout(5, {}, false).record_bytes(), 20);
}

TEST(RecordLayout, KeepsTheStepInItsWordAlone) {
  const RecordLayout layout(1, {{"norm", true, 3}}, true);
  std::vector<float> record = {7, 0, 0, 9};
  layout.InitializeSlots(record.data(), 4000000000);
  EXPECT_EQ(layout.LastStep(record.data()), 4000000000);
  EXPECT_EQ(record[0], 7);
  EXPECT_EQ(record[1], 3);
  EXPECT_EQ(record[3], 9);
  layout.SetLastStep(record.data(), (int64_t{1} << 32) + 5);
  EXPECT_EQ(layout.LastStep(record.data()), 5);
}

TEST(RecordLayout, KeepsTheStepOfTheGradientBehindThatOfTheRule) {
  for (const bool keeps_step : {false, true}) {
    const RecordLayout from(1, {}, keeps_step);
    const RecordLayout layout(RecordLayout(1, {{"norm", true, 3}}, keeps_step), {true, false});
    EXPECT_EQ(layout.record_floats(), 2);
    EXPECT_EQ(layout.record_bytes(), keeps_step ? 16 : 12);
    std::vector<float> record = {7, 8, 9, 9, 9};
    std::vector<float> laid_out = {0, 0, 0, 0, 9};
    layout.SetGradientStep(record.data(), 4000000000);
    layout.SetLastStep(record.data(), 5);
    layout.LayOut(layout, record.data(), 6, laid_out.data());
    EXPECT_EQ(layout.GradientStep(laid_out.data()), 4000000000);
    EXPECT_EQ(layout.LastStep(laid_out.data()), keeps_step ? 6 : 0);
    EXPECT_EQ(laid_out[0], 7);
    EXPECT_EQ(laid_out[1], 3);
    EXPECT_EQ(laid_out[keeps_step ? 4 : 3], keeps_step ? 9 : 0);
    EXPECT_EQ(from.GradientStep(record.data()), 0);
  }
}

TEST(RecordLayout, CountsGradientsBehindTheirSteps) {
  for (const bool keeps_step : {false, true}) {
    for (const bool keeps_gradient_step : {false, true}) {
      const RecordLayout layout(RecordLayout(1, {}, keeps_step), {keeps_gradient_step, true});
      const auto words = static_cast<size_t>(layout.record_words());
      EXPECT_EQ(words, size_t{2} + (keeps_step ? 1 : 0) + (keeps_gradient_step ? 1 : 0));
      std::vector<float> record(words + 1, 9);  // as memory that was used before
      layout.InitializeSlots(record.data(), 5);
      EXPECT_EQ(layout.Frequency(record.data()), 0);
      layout.CountGradient(record.data(), 6);
      layout.CountGradient(record.data(), 8);
      EXPECT_EQ(layout.Frequency(record.data()), 2);
      EXPECT_EQ(layout.GradientStep(record.data()), keeps_gradient_step ? 8 : 0);
      EXPECT_EQ(layout.LastStep(record.data()), keeps_step ? 5 : 0);
      layout.SetFrequency(record.data(), UINT32_MAX);
      layout.CountGradient(record.data(), 9);
      EXPECT_EQ(layout.Frequency(record.data()), UINT32_MAX);
      std::vector<float> laid_out(words, 1);
      layout.LayOut(layout, record.data(), 7, laid_out.data());
      EXPECT_EQ(layout.Frequency(laid_out.data()), UINT32_MAX);
      EXPECT_EQ(record[0], 9);
      EXPECT_EQ(record[words], 9);
    }
  }
}

TEST(RecordLayout, WithoutAStepWritesBehindNoRecord) {
  const RecordLayout layout(1, {{"norm", true, 3}}, false);
  std::vector<float> record = {7, 0, 9};
  layout.InitializeSlots(record.data(), 4);
  EXPECT_EQ(record, (std::vector<float>{7, 3, 9}));
  EXPECT_EQ(layout.LastStep(record.data()), 0);
}

}  // namespace keras_sparse::update_rule_test
