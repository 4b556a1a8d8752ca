// Every rule against its math in double precision, on tables whose rows are rarely touched.

#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse::rule_math_test {

constexpr int64_t kSteps = 700;
constexpr int64_t kNumRows = 14;
constexpr double kLeastFloat = std::numeric_limits<float>::min();

// Rises, stays, falls at every step, is zero for a while, negative, and at last stays again.
double Rate(int64_t step) {
  const auto t = static_cast<double>(step);
  if (step <= 40) return 0.002 * t;
  if (step <= 250) return 0.08;
  if (step <= 480) return 0.04 * (1 + std::cos((t - 250) / 80));
  if (step <= 500) return 0;
  if (step <= 510) return -0.02;
  return 0.05;
}

// Which rows get a gradient: some at every step, some once in hundreds of steps, the last never.
bool IsTouched(int64_t key, int64_t step, std::mt19937* random) {
  if (key == 10) return step == 5 || step == 650;
  if (key == 11) return step == 3;
  if (key == 12) return step == 100 || step == 101 || step == 450;
  if (key == 13) return false;
  return (*random)() % (1u << key) == 0;
}

// Each row has gradients of a size of its own, from 1e-7 to 1000, and some that are not; a few are
// zero.
std::vector<float> RandomGradient(int64_t key, int64_t dim, std::mt19937* random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  const double exponent = (*random)() % 8 == 0 ? -2 + 5 * uniform(*random)
                                               : static_cast<double>(3 - key * 10 / kNumRows);
  const double size = (*random)() % 16 == 0 ? 0 : std::pow(10, exponent);
  std::vector<float> g(static_cast<size_t>(dim));
  for (float& each : g) each = static_cast<float>(size * uniform(*random));
  return g;
}

// A row of the reference.
struct Row {
  bool exists;
  RecordParts parts;
  RecordParts magnitude;        // what the slots would be if no two gradients cancelled
  std::vector<double> largest;  // of each element of the row, up to now
};

class Training {
 public:
  Training(const RuleCase& rule, const TableOptions& options)
      : rule_(rule), options_(options), table_(OpenWithRule(options, rule.options)) {
    for (int64_t key = 0; key < kNumRows; ++key) {
      keys_.push_back(key);
      const RecordParts parts = rule.Begin(InitialRow(options, key));
      rows_.push_back({!table_->options().is_dynamic(), parts, parts, {}});
      for (const double each : parts[0]) rows_.back().largest.push_back(std::abs(each));
    }
  }

  void Run() {
    for (int64_t number = 1; number <= kSteps; ++number) {
      Step({number,
            static_cast<double>(static_cast<float>(std::max(rule_.least_rate, Rate(number))))});
      if (number < 20 || number % 23 == 0 || number == kSteps) CheckRows(number);
      if (::testing::Test::HasFailure()) return;
    }
    CheckRecords();
  }

 private:
  void Step(const ReferenceStep& step) {
    std::vector<int64_t> ids;
    std::vector<float> grads;
    for (const int64_t key : keys_) {
      Row& row = rows_[static_cast<size_t>(key)];
      const bool touched = IsTouched(key, step.number, &random_);
      std::vector<double> sum(static_cast<size_t>(options_.output_dim));
      // Once or, now and then, twice in the batch.
      for (uint32_t times = touched ? 1 + (random_() % 4 == 0) : 0; times > 0; --times) {
        const std::vector<float> g = RandomGradient(key, options_.output_dim, &random_);
        ids.push_back(key);
        grads.insert(grads.end(), g.begin(), g.end());
        for (size_t j = 0; j < g.size(); ++j) sum[j] += static_cast<double>(g[j]);
      }
      row.exists |= touched;
      if (row.exists && (touched || rule_.dense)) {
        rule_.Step(step, sum, &row.parts);
        for (double& each : sum) each = std::abs(each);
        rule_.Step(step, sum, &row.magnitude);
      }
      for (size_t j = 0; j < row.largest.size(); ++j) {
        row.largest[j] = std::max(row.largest[j], std::abs(row.parts[0][j]));
      }
    }
    ASSERT_TRUE(IsOk(Apply(table_.get(), rule_.Numbers(step), ids, grads)));
  }

  void CheckRows(int64_t step) {
    const std::vector<float> read = Lookup(table_.get(), keys_);
    size_t at = 0;
    for (const int64_t key : keys_) {
      const Row& row = rows_[static_cast<size_t>(key)];
      for (size_t j = 0; j < row.largest.size(); ++j, ++at) {
        ASSERT_NEAR(read[at], row.parts[0][j], 1e-5 * row.largest[j])
            << "row " << key << "[" << j << "] after step " << step;
      }
    }
  }

  // Rows and slots.
  void CheckRecords() {
    const Exported exported = ExportAll(*table_);
    for (const int64_t key : keys_) {
      const Row& row = rows_[static_cast<size_t>(key)];
      ASSERT_EQ(exported.count(key), row.exists ? 1u : 0u);
      if (!row.exists) continue;
      const std::vector<float>& record = exported.at(key).record;
      const size_t dim = row.largest.size();
      EXPECT_EQ(Bits({record.begin(), record.begin() + static_cast<std::ptrdiff_t>(dim)}),
                Bits(Lookup(table_.get(), {key})));
      size_t at = dim;
      for (size_t part = 1; part < row.parts.size(); ++part) {
        for (size_t j = 0; j < row.parts[part].size(); ++j, ++at) {
          const double size = std::abs(row.parts[part][j]) + std::abs(row.magnitude[part][j]);
          ASSERT_NEAR(record[at], row.parts[part][j], 1e-5 * size + rule_.slot_slack + kLeastFloat)
              << "row " << key << ", slot " << part << "[" << j << "]";
        }
      }
      EXPECT_EQ(at, record.size());
    }
  }

  const RuleCase& rule_;
  const TableOptions options_;
  std::unique_ptr<EmbeddingTable> table_;
  std::mt19937 random_{7};
  std::vector<int64_t> keys_;
  std::vector<Row> rows_;
};

class EveryRule : public ::testing::TestWithParam<RuleCase> {};

TEST_P(EveryRule, FollowsItsMathOverHundredsOfStepsOfRareGradients) {
  for (const TableOptions& options :
       {Dynamic(1), Options(kNumRows, 5), Dynamic(33), Options(kNumRows, 33)}) {
    SCOPED_TRACE("input_dim " + std::to_string(options.input_dim) + ", output_dim " +
                 std::to_string(options.output_dim));
    Training(GetParam(), options).Run();
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRule, ::testing::ValuesIn(AllRuleCases()),
                         [](const auto& rule_case) { return rule_case.param.name; });

}  // namespace keras_sparse::rule_math_test
