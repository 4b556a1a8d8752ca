// What a rule that defers moves remembers of past steps takes little memory beside the rows,
// however many steps there are.
#include <cmath>

#include "ops/core/stores/dram_store.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::history_test {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kDim = 3;
constexpr int64_t kRows = 8;

struct HistoryCase {
  RuleOptions rule;
  int64_t steps;  // in which the history outgrows a MiB more than once
};

RuleOptions Decaying(RuleOptions rule) {
  rule.weight_decay = 1e-3;
  return rule;
}

std::vector<HistoryCase> Cases() {
  const RuleOptions lion = {"lion", 1, {{"beta_1", 0.9}, {"beta_2", 0.99}}};
  return {{AdamRule("adam", 0.5), 70000},
          {Decaying(AdamRule("adam", 0.5)), 70000},
          {lion, 140000},
          {Decaying(lion), 70000}};
}

std::vector<float> Numbers(const RuleOptions& rule, int64_t step) {
  const auto rate = static_cast<float>(1e-3 * (2 + std::sin(static_cast<double>(step))));
  // Adam has its rate once more, with the bias correction.
  return rule.rule == "adam" ? std::vector<float>{rate, rate} : std::vector<float>{rate};
}

// The rows of a rule that is never told to forget.
class Remembering {
 public:
  explicit Remembering(RuleOptions options) {
    options.dim = kDim;
    EXPECT_TRUE(IsOk(UpdateRule::Create(options, &rule_)));
    records_.resize(kRows, std::vector<float>(Width()));
    for (auto& record : records_) rule_->layout().InitializeSlots(record.data(), 0);
  }
  void Step(const std::vector<float>& numbers, int64_t key, const std::vector<float>& gradient) {
    rule_->BeginStep(numbers);
    if (key >= 0) {
      float* record = records_[static_cast<size_t>(key)].data();
      const float* g = gradient.data();
      rule_->CatchUp(record);
      rule_->Update(&record, &g, 1);
    }
    rule_->FinishStep();
  }
  std::vector<float> Row(int64_t key) const {
    std::vector<float> row(kDim);
    rule_->Read(records_[static_cast<size_t>(key)].data(), row.data());
    return row;
  }
  int64_t history_bytes() const { return rule_->history_bytes(); }

 private:
  size_t Width() const { return static_cast<size_t>(rule_->layout().record_bytes() / 4); }

  std::unique_ptr<UpdateRule> rule_;
  std::vector<std::vector<float>> records_;
};

class History : public ::testing::TestWithParam<HistoryCase> {};

TEST_P(History, StaysSmallAndRowsMoveAsIfItWereKept) {
  const HistoryCase& history_case = GetParam();
  Remembering expected(history_case.rule);
  std::vector<std::unique_ptr<EmbeddingTable>> tables;
  for (const int64_t input_dim : {kRows, int64_t{-1}, int64_t{-1}}) {
    TableOptions options = Options(input_dim, kDim);
    options.initializer = {};
    tables.push_back(OpenWithRule(options, history_case.rule));
  }
  const int64_t record_bytes = 4 * (RecordFloatsOf(*tables[0]) + 1);
  ASSERT_TRUE(IsOk(AddLowerTier(tables[2].get(), std::make_unique<DramStore>(record_bytes))));
  std::vector<int64_t> first_bytes;
  for (const auto& table : tables) first_bytes.push_back(StatsOf(*table).bytes);

  for (int64_t step = 0; step < history_case.steps; ++step) {
    // Row 0 gets a gradient in the first steps only, the others every thousandth step or so.
    int64_t key = step < 3 ? 0 : -1;
    if (step % 977 == 5) key = 1 + step % (kRows - 1);
    std::vector<float> gradient;
    if (key >= 0) gradient = RandomFloats(kDim, static_cast<uint64_t>(step));
    const std::vector<float> numbers = Numbers(history_case.rule, step);
    expected.Step(numbers, key, gradient);
    const std::vector<int64_t> ids = key < 0 ? std::vector<int64_t>() : std::vector<int64_t>{key};
    for (const auto& table : tables) {
      ASSERT_TRUE(IsOk(Apply(table.get(), numbers, ids, gradient)));
    }
    if (key >= 0 && step % 2 == 1) {
      ASSERT_TRUE(IsOk(Demote(tables[2].get(), &key, 1)));
    }
    if (step % 1000 != 0) continue;
    for (size_t t = 0; t < tables.size(); ++t) {
      // Vectors grow by doubling, and the rows' own memory is small here.
      ASSERT_LE(StatsOf(*tables[t]).bytes - first_bytes[t], 2 * kMiB + 65536) << "step " << step;
    }
  }

  EXPECT_GE(expected.history_bytes(), 2 * kMiB);
  for (int64_t key = 0; key < kRows; ++key) {
    const std::vector<float> row = expected.Row(key);
    for (const auto& table : tables) {
      const std::vector<float> read = Lookup(table.get(), {key});
      for (size_t j = 0; j < row.size(); ++j) {
        EXPECT_NEAR(read[j], row[j], 2e-6 * (1 + std::abs(row[j]))) << "key " << key;
      }
    }
    EXPECT_EQ(Bits(Lookup(tables[1].get(), {key})), Bits(Lookup(tables[2].get(), {key})));
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, History, ::testing::ValuesIn(Cases()), [](const auto& each) {
  return each.param.rule.rule + (each.param.rule.weight_decay == 0 ? "" : "_with_decay");
});

}  // namespace keras_sparse::history_test
