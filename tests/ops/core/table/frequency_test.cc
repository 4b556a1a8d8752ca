// How often a row had a gradient, which a table keeps in the record.

#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::frequency_test {

using Row = std::vector<float>;
using Keys = std::vector<int64_t>;
using OfKeys = std::map<int64_t, uint32_t>;

class FrequencyOver : public ::testing::TestWithParam<const char*> {
 protected:
  // The first tier holds some of the rows.
  TableOptions Table() const {
    TableOptions options = Counting(Dynamic(2));
    const std::string name = GetParam();
    if (name == "memory") return options;
    if (name == "hbm") {
      options.storage.device = OpenDevice();
    } else if (name == "hbm_ssdhash") {
      options.storage = HbmOver({"ssdhash"}, 2000, 0, folder_ / "rows");
    } else {
      options.storage = {{name}, {4000, int64_t{1} << 30}, folder_ / "rows", "LFU"};
    }
    return options;
  }
  const TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Tiers, FrequencyOver,
                         ::testing::Values("memory", "dram", "ssdhash", "hbm", "hbm_ssdhash"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(FrequencyOver, IsTheNumberOfStepsWithAGradient) {
  ThreadExecutor executor(3);
  for (const RuleOptions& rule : {SgdRule(), AdagradRule(0.1), AdamRule()}) {
    for (const bool keeps_age : {false, true}) {
      TableOptions options = Table();
      options.keeps.gradient_step = keeps_age;
      options.storage.path += rule.rule + (keeps_age ? "1" : "0");
      const auto table = OpenWithRule(options, rule);
      OfKeys expected;
      std::mt19937 random(3);
      for (int step = 0; step < 12; ++step) {
        Keys ids(random() % 200);
        for (int64_t& id : ids) id = static_cast<int64_t>(random() % 150);  // with repeats
        const Row numbers = rule.rule == "adam" ? Row{0.1f, 1} : Row{0.1f};
        ASSERT_TRUE(IsOk(Apply(table.get(), numbers, ids, Row(2 * ids.size(), 1), &executor)));
        for (const int64_t key : std::set<int64_t>(ids.begin(), ids.end())) ++expected[key];
        Lookup(table.get(), {1, 2, 3, 999}, &executor);
        ASSERT_EQ(Frequencies(*table), expected) << rule.rule << ", step " << step;
      }
      // Another rule has other slots.
      ASSERT_TRUE(IsOk(SetRule(table.get(), AdagradRule(0.5), &executor)));
      EXPECT_EQ(Frequencies(*table), expected);
    }
  }
}

TEST_P(FrequencyOver, ComesInWithRowsOrStaysAsItIs) {
  for (const RuleOptions& rule : {SgdRule(), AdagradRule(0.1)}) {
    TableOptions options = Table();
    options.storage.path += rule.rule;
    const auto table = OpenWithRule(options, rule);
    Keys all;
    for (int64_t key = 0; key < 300; ++key) all.push_back(key);
    ASSERT_TRUE(IsOk(Subtract(table.get(), all, Row(600, 1))));
    ASSERT_TRUE(IsOk(Subtract(table.get(), {5, 299}, Row(4, 1))));
    OfKeys expected = Frequencies(*table);
    const Keys keys = {5, 7, 299, 1000};
    // Rows alone, then with slots: over rows that are above, and that are below.
    for (const int64_t width : {int64_t{2}, RecordFloatsOf(*table)}) {
      const Row records(static_cast<size_t>(4 * width), 0.5f);
      ASSERT_TRUE(IsOk(ImportAll(table.get(), keys, records)));
      expected[1000] = 0;
      EXPECT_EQ(Frequencies(*table), expected) << rule.rule << ", width " << width;
    }
    for (const int64_t width : {int64_t{2}, RecordFloatsOf(*table)}) {
      const Row records(static_cast<size_t>(4 * width), 0.5f);
      const std::vector<uint32_t> given = {9, 0, UINT32_MAX, 3};
      ASSERT_TRUE(IsOk(ImportRows(table.get(), keys.data(), 4, records.data(), width, Inline(),
                                  nullptr, given.data())));
      for (size_t i = 0; i < keys.size(); ++i) expected[keys[i]] = given[i];
      EXPECT_EQ(Frequencies(*table), expected) << rule.rule << ", width " << width;
    }
    ASSERT_TRUE(IsOk(Subtract(table.get(), keys, Row(8, 1))));
    for (const int64_t key : keys) {
      if (expected[key] != UINT32_MAX) ++expected[key];
    }
    EXPECT_EQ(Frequencies(*table), expected);
  }
}

TEST(Frequency, IsThatOfADynamicTableWhichWasAskedForIt) {
  ExportedRows rows;
  const auto plain = OpenWithRule(Aging(Dynamic(2)), SgdRule());
  ASSERT_TRUE(IsOk(Subtract(plain.get(), {1}, {1, 1})));
  ASSERT_TRUE(IsOk(ExportRows(*plain, 0, 10, &rows)));
  EXPECT_TRUE(rows.frequencies.empty());
  const uint32_t frequency = 7;
  ASSERT_TRUE(IsOk(ImportRows(plain.get(), rows.keys.data(), 1, rows.records.data(), 2, Inline(),
                              nullptr, &frequency)));
  std::unique_ptr<EmbeddingTable> table;
  EXPECT_EQ(EmbeddingTable::Open(Counting(Options(4, 2)), Inline(), &table).code(),
            StatusCode::kUnimplemented);
  int64_t num_evicted = 0;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "must keep the frequencies of rows",
                        TryToEvict(plain.get(), Lfu(), &num_evicted)));
}

}  // namespace keras_sparse::frequency_test
