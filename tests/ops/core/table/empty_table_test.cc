// A static table without rows: what a rank has of a table that has fewer rows than ranks.
#include "ops/core/operations/clear_rows.h"
#include "ops/core/operations/set_filter.h"
#include "tests/ops/core/support/snapshot_testing.h"

namespace keras_sparse::empty_table_test {

TEST(EmptyTable, IsStaticAndHoldsNothing) {
  const auto table = Open(Options(0, 3));
  EXPECT_FALSE(table->options().is_dynamic());
  EXPECT_EQ(table->options().input_dim, 0);
  EXPECT_EQ(NumRowsOf(*table), 0);
  EXPECT_EQ(StatsOf(*table).rows, 0);
  EXPECT_TRUE(ExportAll(*table).empty());
}

TEST(EmptyTable, LooksUpNothingAndHasNoId) {
  const auto table = Open(Options(0, 3));
  EXPECT_TRUE(Lookup(table.get(), {}).empty());
  EXPECT_EQ(Pool(table.get(), {}, BagsOf(Combiner::kMean, {0, 0, 0})), std::vector<float>(6));
  const int64_t id = 0;
  std::vector<float> row(3);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "ids[0] = 0",
                        LookupRows({{table.get(), &id, NoBags({0}), row.data()}}, Inline())));
  TableOptions options = Options(0, 3);
  options.out_of_range_is_zero = true;
  EXPECT_EQ(Lookup(Open(options).get(), {0, -1}), std::vector<float>(6));
}

TEST(EmptyTable, TakesStepsWithoutGradients) {
  ThreadExecutor executor(2);
  for (const RuleOptions& rule : {SgdRule(), AdagradRule(0.1), AdamRule(), AdamRule("lazy_adam")}) {
    const auto table = OpenWithRule(Options(0, 3), rule);
    EXPECT_GE(RecordFloatsOf(*table), 3);
    std::vector<float> numbers = {1};
    if (rule.rule == "adam" || rule.rule == "lazy_adam") numbers.push_back(1);
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(IsOk(Apply(table.get(), numbers, {}, {}, &executor)));
    }
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "ids[0] = 0",
                          Apply(table.get(), numbers, {0}, {1, 2, 3})));
    EXPECT_TRUE(ExportAll(*table).empty());
    EXPECT_TRUE(IsOk(SetRule(table.get(), rule, &executor)));
    EXPECT_TRUE(IsOk(SetInitializer(table.get(), {"constant", 5})));
    EXPECT_TRUE(IsOk(ClearRows(table.get(), &executor)));
    EXPECT_EQ(NumRowsOf(*table), 0);
  }
}

TEST(EmptyTable, IsSavedAndRestored) {
  const auto table = OpenWithRule(Options(0, 3), AdamRule());
  PassSteps(table.get(), {1, 1}, 2);
  ASSERT_TRUE(IsOk(MarkSaved(table.get())));
  EXPECT_TRUE(ExportRaw(table.get()).empty());
  EXPECT_TRUE(ExportRaw(table.get(), kChanged).empty());
  PassSteps(table.get(), {1, 1}, 1);
  EXPECT_TRUE(ExportRaw(table.get(), kChanged).empty());
  const auto other = OpenWithRule(Options(0, 3), AdamRule());
  ASSERT_TRUE(IsOk(RestoreSteps(other.get(), HistoryOf(*table), Inline())));
  EXPECT_EQ(HistoryOf(*other).table_step, 3);
  EXPECT_TRUE(IsOk(ImportRows(other.get(), nullptr, 0, nullptr, 3, Inline())));
}

}  // namespace keras_sparse::empty_table_test
