// Records saved as they lay in the tiers, caught up by a rule made anew.
#include "ops/core/optimizer/saved_rule.h"

#include <utility>

#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::saved_rule_test {

constexpr int64_t kDim = 5;
constexpr int64_t kRows = 8;

std::unique_ptr<SavedRule> OpenSaved(const RuleOptions& options, const RuleHistory& history) {
  std::unique_ptr<SavedRule> saved;
  EXPECT_TRUE(IsOk(SavedRule::Open(options, history, &saved)));
  return saved;
}

// A rule at work on a few records, and copies of them from all along the way.
class Training {
 public:
  explicit Training(const RuleCase& rule_case) : case_(rule_case), options_(rule_case.options) {
    options_.dim = kDim;
    EXPECT_TRUE(IsOk(UpdateRule::Create(options_, &rule_)));
    for (int64_t key = 0; key < kRows; ++key) {
      records_.push_back(RandomFloats(width(), static_cast<uint64_t>(key)));
      rule_->layout().InitializeSlots(records_.back().data(), 0);
    }
  }

  // Rates stay for a while, or change at every step. Row `key` gets a gradient once in 4^key steps.
  void Run(int64_t steps) {
    std::uniform_real_distribution<double> uniform(0.01, 0.1);
    for (int64_t i = 0; i < steps; ++i) {
      if (rule_->step() / 150 % 2 == 0 || rule_->step() % 40 == 0) rate_ = uniform(random_);
      rule_->BeginStep(case_.Numbers({rule_->step() + 1, rate_}));
      for (size_t key = 0; key < records_.size(); ++key) {
        if (random_() % (1u << (2 * key)) != 0) continue;
        const std::vector<float> gradient = RandomFloats(kDim, random_());
        float* record = records_[key].data();
        const float* g = gradient.data();
        rule_->CatchUp(record);
        rule_->Update(&record, &g, 1);
      }
      rule_->FinishStep();
      const std::vector<float>& copy = records_[random_() % records_.size()];
      if (random_() % 4 == 0) copies_.insert(copies_.end(), copy.begin(), copy.end());
    }
  }

  void Forget() {
    for (auto& record : records_) rule_->CatchUp(record.data());
    rule_->ForgetSteps();
  }
  void DropCopies() { copies_.clear(); }

  // What the rule itself makes of the copies.
  std::vector<float> CaughtUp() const {
    std::vector<float> result;
    for (auto copy = copies_.begin(); copy != copies_.end(); copy += width()) {
      std::vector<float> record(copy, copy + width());
      rule_->CatchUp(record.data());
      result.insert(result.end(), record.begin(),
                    record.begin() + static_cast<std::ptrdiff_t>(rule_->layout().record_floats()));
    }
    return result;
  }
  // What a saved rule makes of them.
  std::vector<float> CaughtUpBy(const SavedRule& saved) const {
    std::vector<float> result(static_cast<size_t>(num_copies() * saved.layout().record_floats()),
                              std::numeric_limits<float>::quiet_NaN());
    ThreadExecutor executor(3);
    EXPECT_TRUE(IsOk(saved.CatchUp(copies_.data(), num_copies(), saved.record_words(),
                                   result.data(), &executor)));
    return result;
  }

  const RuleOptions& options() const { return options_; }
  const UpdateRule& rule() const { return *rule_; }
  const std::vector<float>& copies() const { return copies_; }
  int64_t num_copies() const { return static_cast<int64_t>(copies_.size()) / width(); }

 private:
  int64_t width() const { return rule_->layout().record_bytes() / 4; }

  const RuleCase& case_;
  RuleOptions options_;
  std::unique_ptr<UpdateRule> rule_;
  std::mt19937 random_{11};
  double rate_ = 0;
  std::vector<std::vector<float>> records_;
  std::vector<float> copies_;
};

class EverySavedRule : public ::testing::TestWithParam<RuleCase> {};

TEST_P(EverySavedRule, CatchesUpWithTheBitsOfTheRuleItself) {
  Training training(GetParam());
  training.Run(700);
  const RuleHistory history = training.rule().history();
  EXPECT_EQ(history.first_step, training.rule().defers_moves() ? 0 : 700);
  EXPECT_EQ(history.step, 700);
  const auto saved = OpenSaved(training.options(), history);
  EXPECT_GT(training.num_copies(), 100);
  EXPECT_EQ(Bits(training.CaughtUpBy(*saved)), Bits(training.CaughtUp()));
}

TEST_P(EverySavedRule, CatchesUpFromWhereTheRuleHasForgottenWhatWasBefore) {
  Training training(GetParam());
  training.Run(333);
  training.Forget();
  training.DropCopies();
  training.Run(400);
  const RuleHistory history = training.rule().history();
  EXPECT_EQ(history.first_step, training.rule().defers_moves() ? 333 : 733);
  EXPECT_EQ(history.step, 733);
  const auto saved = OpenSaved(training.options(), history);
  EXPECT_EQ(Bits(training.CaughtUpBy(*saved)), Bits(training.CaughtUp()));
}

// Their rows make no sense either.
TEST_P(EverySavedRule, OutlivesConstantsThatMakeNoSense) {
  RuleHistory history = {5, 105, 0, {60, 40}, {}};
  for (const int64_t step : {1, 2}) {
    const std::vector<float> numbers = GetParam().Numbers({step, 0.1});
    history.num_numbers = static_cast<int64_t>(numbers.size());
    history.numbers.insert(history.numbers.end(), numbers.begin(), numbers.end());
  }
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& constant : GetParam().options.constants) {
    for (const double value : {-0.5, 0.0, 2.0, -infinity, infinity, std::nan("")}) {
      RuleOptions options = GetParam().options;
      options.constants[constant.first] = value;
      const auto saved = OpenSaved(options, history);
      std::vector<float> raw(static_cast<size_t>(saved->record_words()), 1.0f);
      saved->layout().SetLastStep(raw.data(), 6);
      std::vector<float> record(static_cast<size_t>(saved->layout().record_floats()));
      EXPECT_TRUE(
          IsOk(saved->CatchUp(raw.data(), 1, saved->record_words(), record.data(), Inline())));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, EverySavedRule, ::testing::ValuesIn(AllRuleCases()),
                         [](const auto& rule_case) { return rule_case.param.name; });

RuleOptions MomentumRule() { return {"momentum", 1, {{"momentum", 0.5}, {"nesterov", 0}}, 0}; }
// Ten steps after the hundredth: three at a rate of 1, seven at 2.
RuleHistory TenSteps() { return {100, 110, 1, {3, 7}, {1, 2}}; }

// A row and a momentum of 64, as of a step.
std::vector<float> RawRecord(const RecordLayout& layout, int64_t step) {
  std::vector<float> raw = {0, 64, 0};
  layout.SetLastStep(raw.data(), step);
  return raw;
}

TEST(SavedRule, MovesARecordByTheStepsItHasMissed) {
  const auto saved = OpenSaved(MomentumRule(), TenSteps());
  std::vector<float> record(2);
  for (const auto& [step, row] : {std::pair<int64_t, float>{110, 0}, {109, 32}, {107, 56}}) {
    const std::vector<float> raw = RawRecord(saved->layout(), step);
    ASSERT_TRUE(IsOk(saved->CatchUp(raw.data(), 1, 3, record.data(), Inline())));
    EXPECT_EQ(record, (std::vector<float>{row, step == 110 ? 64 : step == 109 ? 32.0f : 8.0f}));
  }
}

TEST(SavedRule, KnowsStepsAcrossTheEndOfTheStepWord) {
  const int64_t first = (int64_t{1} << 32) - 2;
  const auto saved = OpenSaved(MomentumRule(), {first, first + 4, 1, {4}, {1}});
  std::vector<float> record(2);
  for (const auto& [step, row] :
       {std::pair<int64_t, float>{first, 60}, {first + 2, 48}, {first + 4, 0}}) {
    const std::vector<float> raw = RawRecord(saved->layout(), step);
    ASSERT_TRUE(IsOk(saved->CatchUp(raw.data(), 1, 3, record.data(), Inline())));
    EXPECT_EQ(record[0], row);
  }
  const std::vector<float> raw = RawRecord(saved->layout(), first + 5);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "Received: records[0] of step 3",
                        saved->CatchUp(raw.data(), 1, 3, record.data(), Inline())));
}

TEST(SavedRule, RefusesTheFirstRecordOfAStepItDoesNotKnow) {
  const auto saved = OpenSaved(MomentumRule(), TenSteps());
  ThreadExecutor executor(3);
  for (const int64_t step : {99, 111}) {
    std::vector<float> raw;
    for (int64_t i = 0; i < 40; ++i) {
      const std::vector<float> record = RawRecord(saved->layout(), i < 17 ? 104 : step);
      raw.insert(raw.end(), record.begin(), record.end());
    }
    std::vector<float> records(80);
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "the last step of a record must be in [100, 110] modulo 2^32, the steps "
                          "that rule 'momentum' remembers. Received: records[17] of step " +
                              std::to_string(step),
                          saved->CatchUp(raw.data(), 40, 3, records.data(), &executor)));
  }
}

TEST(SavedRule, RefusesRecordsOfAnotherWidth) {
  const auto saved = OpenSaved(MomentumRule(), TenSteps());
  const std::vector<float> raw(4);
  std::vector<float> record(2);
  for (const int64_t width : {2, 4}) {
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "`raw` must be 3 words wide, what a record of rule 'momentum' takes. "
                          "Received: " +
                              std::to_string(width),
                          saved->CatchUp(raw.data(), 1, width, record.data(), Inline())));
  }
}

TEST(SavedRule, RefusesWhatCannotBeAHistoryOfTheRule) {
  RuleOptions decaying = MomentumRule();
  decaying.weight_decay = 0.5;
  RuleOptions wide = MomentumRule();
  wide.dim = int64_t{1} << 40;
  const int64_t many = int64_t{1} << 31;
  const struct {
    RuleOptions options;
    RuleHistory history;
    const char* words;
  } wrong[] = {
      {{"momentums", 1, {}, 0}, TenSteps(), "`rule` must be one of ("},
      {{"momentum", 1, {}, 0}, TenSteps(), "`constants` of rule 'momentum' must be ("},
      {wide, TenSteps(), "`output_dim` must be in [1, 16777216]. Received: output_dim=1099511627"},
      {decaying, TenSteps(), "`weight_decay` times the learning rate must be below 1"},
      {MomentumRule(), {-1, 9, 1, {3, 7}, {1, 2}}, "`first_step` must be at least 0"},
      {MomentumRule(), {100, 103, 1, {3, 0}, {1, 2}}, "Received: run_lengths[1] = 0"},
      {MomentumRule(), {100, 98, 1, {-2}, {1}}, "`step` at least that. Received: first_step=100"},
      {MomentumRule(), {100, 101, 1, {-2}, {1}}, "Received: run_lengths[0] = -2"},
      {MomentumRule(), {0, 2 * many, 1, {many, many}, {1, 2}}, "Received: run_lengths[1] = 214748"},
      {MomentumRule(), {100, 111, 1, {3, 7}, {1, 2}}, "`step`, 11. Received: 10 steps"},
      {MomentumRule(), {100, 110, 1, {3, 7}, {1}}, "be (2, 1), one row a run. Received: 1 numbers"},
      {MomentumRule(), {100, 110, 2, {3, 7}, {1, 2, 3, 4}}, "Received: 4 numbers, 2 a row"},
  };
  for (const auto& each : wrong) {
    std::unique_ptr<SavedRule> saved;
    const Status status = SavedRule::Open(each.options, each.history, &saved);
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, each.words, status));
    EXPECT_EQ(saved, nullptr);
  }
}

TEST(SavedRule, TakesMillionsOfStepsOfTheSameNumbers) {
  const int64_t steps = 3000000;
  const auto saved = OpenSaved(AdamRule(), {0, steps, 2, {steps}, {0.1f, 0.1f}});
  EXPECT_EQ(saved->record_words(), 4);
}

TEST(TableHistory, IsWhatTheTableWasGiven) {
  const auto table = OpenWithRule(Options(3, 1), MomentumRule());
  for (const float rate : {1.0f, 1.0f, 2.0f}) {
    ASSERT_TRUE(IsOk(Apply(table.get(), {rate}, {1}, {1})));
  }
  const RuleHistory history = HistoryOf(*table);
  EXPECT_EQ(history.first_step, 0);
  EXPECT_EQ(history.step, 3);
  EXPECT_EQ(history.num_numbers, 1);
  EXPECT_EQ(history.run_lengths, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(history.numbers, (std::vector<float>{1, 2}));
  ASSERT_TRUE(IsOk(SetRule(table.get(), SgdRule(), Inline())));
  ASSERT_TRUE(IsOk(Apply(table.get(), {1}, {1}, {1})));
  EXPECT_EQ(HistoryOf(*table).step, 1);
  EXPECT_EQ(HistoryOf(*table).run_lengths.size(), 0u);
}

}  // namespace keras_sparse::saved_rule_test
