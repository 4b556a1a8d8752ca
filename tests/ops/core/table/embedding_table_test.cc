#include "ops/core/table/embedding_table.h"

#include "ops/core/operations/clear_rows.h"
#include "ops/core/operations/set_filter.h"
#include "ops/core/stores/dram_store.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/table_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::embedding_table_test {

TEST(EmbeddingTable, RefusesSizesThatMakeNoTable) {
  std::unique_ptr<EmbeddingTable> table;
  for (const int64_t dim : {int64_t{0}, int64_t{-1}, (int64_t{1} << 24) + 1, int64_t{1} << 62}) {
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "Received: output_dim=" + std::to_string(dim),
                          EmbeddingTable::Open(Dynamic(dim), Inline(), &table)));
  }
  for (const int64_t rows : {-2, -3}) {
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "Received: input_dim=" + std::to_string(rows),
                          EmbeddingTable::Open(Options(rows, 2), Inline(), &table)));
  }
  TableOptions options = Dynamic(2);
  options.initializer.kind = "random";
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "initializer='random'",
                        EmbeddingTable::Open(options, Inline(), &table)));
}

TEST(EmbeddingTable, KnowsWhatItIs) {
  const auto dynamic = Open(Dynamic(3));
  EXPECT_TRUE(dynamic->options().is_dynamic());
  EXPECT_EQ(dynamic->dim(), 3);
  EXPECT_EQ(NumRowsOf(*dynamic), 0);
  EXPECT_EQ(dynamic->name(), "items");
  const auto fixed = Open(Options(7, 3));
  EXPECT_FALSE(fixed->options().is_dynamic());
  EXPECT_EQ(fixed->options().input_dim, 7);
  EXPECT_EQ(NumRowsOf(*fixed), 7);
}

TEST(EmbeddingTable, RowIOfAStaticTableAndKeyIOfADynamicOneStartAlike) {
  const std::vector<int64_t> ids = {0, 1, 49};
  EXPECT_EQ(Lookup(Open(Options(50, 4, 9)).get(), ids), Lookup(Open(Dynamic(4, 9)).get(), ids));
}

TEST(EmbeddingTable, SetRuleKeepsRowsAndGivesEverySlotItsInitialValue) {
  ThreadExecutor executor(2);
  for (const TableOptions& options : {Dynamic(2), Options(100, 2)}) {
    const auto table = OpenWithRule(options, SgdRule());
    ASSERT_TRUE(IsOk(Subtract(table.get(), {3, 50}, {1, 2, 3, 4})));
    const std::vector<float> rows = Lookup(table.get(), {3, 50, 7});
    ASSERT_TRUE(IsOk(SetRule(table.get(), AdagradRule(0.25), &executor)));
    EXPECT_EQ(Lookup(table.get(), {3, 50, 7}), rows);
    EXPECT_EQ(RecordFloatsOf(*table), 4);
    EXPECT_EQ(ExportAll(*table).at(3).record, (std::vector<float>{rows[0], rows[1], 0.25f, 0.25f}));
    ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, {3}, {1, 1})));
    // Again the same rule: the slots start anew.
    ASSERT_TRUE(IsOk(SetRule(table.get(), AdagradRule(0.25), &executor)));
    EXPECT_EQ(ExportAll(*table).at(3).record[2], 0.25f);
    EXPECT_NE(Lookup(table.get(), {3})[0], rows[0]);
  }
}

TEST(EmbeddingTable, SetRuleRefusesAnUnknownRuleAndChangesNothing) {
  const auto table = OpenWithRule(Dynamic(2), SgdRule());
  ASSERT_TRUE(IsOk(Subtract(table.get(), {3}, {1, 2})));
  const Exported before = ExportAll(*table);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "rule='none'",
                        SetRule(table.get(), {"none", 1, {}}, Inline())));
  EXPECT_EQ(ExportAll(*table), before);
  EXPECT_TRUE(IsOk(Subtract(table.get(), {3}, {1, 2})));
}

TEST(EmbeddingTable, ClearGoesBackToTheStateBeforeTraining) {
  for (const TableOptions& options : {Dynamic(2), Options(10, 2)}) {
    const auto table = OpenWithRule(options, AdagradRule(0.1));
    const Exported before = ExportAll(*table);
    ASSERT_TRUE(IsOk(Apply(table.get(), {1}, {3, 5}, {1, 2, 3, 4})));
    EXPECT_NE(ExportAll(*table), before);
    ASSERT_TRUE(IsOk(ClearRows(table.get(), Inline())));
    EXPECT_EQ(ExportAll(*table), before);
    EXPECT_EQ(Lookup(table.get(), {3}), InitialRow(options, 3));
    EXPECT_TRUE(IsOk(Apply(table.get(), {1}, {3}, {1, 2})));
  }
}

TEST(EmbeddingTable, SetInitializerChangesRowsThatAreNotHeldAndWhatClearGivesBack) {
  const auto dynamic = OpenWithRule(Dynamic(1), SgdRule());
  ASSERT_TRUE(IsOk(Subtract(dynamic.get(), {3}, {1})));
  const std::vector<float> held = Lookup(dynamic.get(), {3});
  ASSERT_TRUE(IsOk(SetInitializer(dynamic.get(), {"constant", 5})));
  EXPECT_EQ(Lookup(dynamic.get(), {3, 4}), (std::vector<float>{held[0], 5}));
  const auto fixed = Open(Options(10, 1));
  ASSERT_TRUE(IsOk(SetInitializer(fixed.get(), {"constant", 5})));
  EXPECT_EQ(Lookup(fixed.get(), {3}), InitialRow(Options(10, 1), 3));
  ASSERT_TRUE(IsOk(ClearRows(fixed.get(), Inline())));
  EXPECT_EQ(Lookup(fixed.get(), {3}), std::vector<float>{5});
  EXPECT_FALSE(SetInitializer(fixed.get(), {"random", 5}).ok());
}

TEST(EmbeddingTable, CountsRowsBytesAndWhatGradientsCreated) {
  const auto table = OpenWithRule(Dynamic(8), AdagradRule(0));
  const int64_t empty_bytes = StatsOf(*table).bytes;
  const std::vector<int64_t> ids = RandomIds(5000, 0, 1000000, 1);
  ASSERT_TRUE(IsOk(Apply(table.get(), {1}, ids, std::vector<float>(40000))));
  const TableStats stats = StatsOf(*table);
  EXPECT_EQ(stats.rows, NumRowsOf(*table));
  EXPECT_EQ(stats.created_rows, stats.rows);
  EXPECT_GE(stats.bytes - empty_bytes, stats.rows * 64);
  ASSERT_TRUE(
      IsOk(ImportRows(table.get(), ids.data(), 1, std::vector<float>(8).data(), 8, Inline())));
  const int64_t new_key = -5;
  ASSERT_TRUE(
      IsOk(ImportRows(table.get(), &new_key, 1, std::vector<float>(8).data(), 8, Inline())));
  EXPECT_EQ(StatsOf(*table).rows, stats.rows + 1);
  EXPECT_EQ(StatsOf(*table).created_rows, stats.rows) << "an import is no gradient";
}

TEST(EmbeddingTable, NeedsHardlyMoreThanTheRowsOfAStaticTable) {
  const auto table = OpenWithRule(Options(20000, 16), AdamRule("lazy_adam"));
  EXPECT_LE(StatsOf(*table).bytes, 20000 * 192 * 102 / 100);
}

TEST(EmbeddingTable, TakesOnlyLowerTiersThatFitIt) {
  const auto table = OpenWithRule(Dynamic(2), AdagradRule(0));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition,
                        "must have records of 16 bytes. Received: 8",
                        AddLowerTier(table.get(), std::make_unique<DramStore>(8))));
  ASSERT_TRUE(IsOk(AddLowerTier(table.get(), std::make_unique<DramStore>(16))));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "before a lower tier is added",
                        SetRule(table.get(), SgdRule(), Inline())));
  const auto fixed = Open(Options(5, 2));
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "static table 'items'",
                        AddLowerTier(fixed.get(), std::make_unique<DramStore>(8))));
}

TEST(EmbeddingTable, DemotesNothingWithoutALowerTier) {
  const int64_t key = 1;
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "must have a lower tier",
                        Demote(Open(Dynamic(2)).get(), &key, 1)));
}

}  // namespace keras_sparse::embedding_table_test
