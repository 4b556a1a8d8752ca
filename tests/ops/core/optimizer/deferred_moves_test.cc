// A rule whose records move without gradients, on tables of every kind.
#include "ops/core/operations/export_rows.h"
#include "ops/core/stores/dram_store.h"
#include "tests/ops/core/support/drift_rule.h"
#include "tests/ops/core/support/table_access.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::deferred_moves_test {

const std::vector<int64_t> kIds = {0, 1, 2, 3, 4, 5};

TEST(DeferredMoves, ReadsAndUpdatesLikeADenseOne) {
  for (const int64_t input_dim : {-1, 6}) {
    const auto table = OpenDrift(input_dim);
    DenseDrift dense;
    ThreadExecutor executor(2);
    for (int64_t step = 1; step <= 12; ++step) {
      const std::vector<int64_t> ids = {step % 5, step * step % 5, step % 5};
      dense.Step(ids);
      ASSERT_TRUE(IsOk(Kick(table.get(), ids, &executor)));
      EXPECT_EQ(Lookup(table.get(), kIds, &executor), dense.Rows(kIds)) << "step " << step;
    }
  }
}

TEST(DeferredMoves, IsAppliedByReadingWithoutAWrite) {
  const auto table = OpenDrift(-1);
  auto owned = std::make_unique<DramStore>(20);
  const DramStore* store = owned.get();
  ASSERT_TRUE(IsOk(AddLowerTier(table.get(), std::move(owned))));
  ASSERT_TRUE(IsOk(Kick(table.get(), {7})));
  PassSteps(table.get(), {1}, 2);
  ASSERT_TRUE(IsOk(Kick(table.get(), {8})));
  const int64_t key = 7;
  const std::vector<float> expected(2, -1024 - 512 - 256 - 128);
  EXPECT_EQ(Lookup(table.get(), {7}), expected);
  ASSERT_TRUE(IsOk(Demote(table.get(), &key, 1)));
  EXPECT_EQ(Lookup(table.get(), {7}), expected);
  // The record itself is still that of step 1.
  std::vector<float> record(5);
  bool found = false;
  ASSERT_TRUE(IsOk(store->Get(&key, 1, reinterpret_cast<char*>(record.data()), &found)));
  EXPECT_EQ(record[0], -1024);
  EXPECT_EQ(record[2], 1024);
  EXPECT_EQ(RecordLayout(2, {{"velocity", false, 0}}, true).LastStep(record.data()), 1);
}

TEST(DeferredMoves, ExportsRecordsAsOfTheCurrentStep) {
  const auto table = OpenDrift(-1);
  DenseDrift dense;
  for (const std::vector<int64_t>& ids : {std::vector<int64_t>{1}, {2, 2}, {3}, {}}) {
    dense.Step(ids);
    ASSERT_TRUE(IsOk(Kick(table.get(), ids)));
  }
  const Exported exported = ExportAll(*table);
  EXPECT_EQ(exported.size(), 3u);
  for (const auto& [key, row] : exported) {
    const std::vector<float> expected = dense.Rows({key});
    EXPECT_EQ(row.record, (std::vector<float>{expected[0], expected[1], dense.velocity(key),
                                              dense.velocity(key)}));
  }
}

TEST(DeferredMoves, TrainsOnAfterAnImportAsIfItHadNeverStopped) {
  for (const int64_t input_dim : {-1, 6}) {
    const auto table = OpenDrift(input_dim);
    for (int64_t step = 1; step <= 6; ++step) {
      ASSERT_TRUE(IsOk(Kick(table.get(), {step % 4, step % 3})));
    }
    ExportedRows rows;
    ASSERT_TRUE(IsOk(ExportRows(*table, 0, 1000, &rows)));
    ASSERT_EQ(rows.next_cursor, -1);
    const auto copy = OpenDrift(input_dim);
    ASSERT_TRUE(IsOk(ImportAll(copy.get(), rows.keys, rows.records)));
    EXPECT_EQ(Lookup(copy.get(), kIds), Lookup(table.get(), kIds));
    for (int64_t step = 7; step <= 10; ++step) {
      for (EmbeddingTable* each : {copy.get(), table.get()}) {
        ASSERT_TRUE(IsOk(Kick(each, {step % 4})));
      }
      EXPECT_EQ(Lookup(copy.get(), kIds), Lookup(table.get(), kIds));
    }
    EXPECT_EQ(ExportAll(*copy), ExportAll(*table));
  }
}

TEST(DeferredMoves, KeepsItsSlotsUpToDateWhereAnImportSetsRowsAlone) {
  const auto table = OpenDrift(-1);
  ASSERT_TRUE(IsOk(Kick(table.get(), {1})));
  PassSteps(table.get(), {1}, 2);
  ASSERT_TRUE(IsOk(Kick(table.get(), {2})));
  const int64_t key = 1;
  const std::vector<float> row = {8, 16};
  ASSERT_TRUE(IsOk(ImportRows(table.get(), &key, 1, row.data(), 2, Inline())));
  EXPECT_EQ(Lookup(table.get(), {1}), row);
  // Three halvings: steps 2, 3 and 4.
  EXPECT_EQ(ExportAll(*table).at(1).record, (std::vector<float>{8, 16, 128, 128}));
  ASSERT_TRUE(IsOk(Kick(table.get(), {2})));
  EXPECT_EQ(Lookup(table.get(), {1}), (std::vector<float>{8 - 64, 16 - 64}));
}

TEST(DeferredMoves, MakesItsPendingMovesBeforeAnotherRuleTakesOver) {
  for (const int64_t input_dim : {-1, 6}) {
    const auto table = OpenDrift(input_dim);
    ASSERT_TRUE(IsOk(Kick(table.get(), {1, 2})));
    PassSteps(table.get(), {1}, 3);
    ASSERT_TRUE(IsOk(Kick(table.get(), {3})));
    const std::vector<float> before = Lookup(table.get(), kIds);
    ASSERT_TRUE(IsOk(SetRule(table.get(), SgdRule(), Inline())));
    EXPECT_EQ(Lookup(table.get(), kIds), before);
  }
}

TEST(DeferredMoves, CountsStepsAcrossTheEndOfItsStepWord) {
  std::unique_ptr<UpdateRule> rule;
  ASSERT_TRUE(IsOk(UpdateRule::Create(DriftRule(), &rule)));
  std::vector<float> record = {0, 1024, 0};
  // Three steps before the one at which the word is zero again, as it is for a new rule.
  rule->layout().SetLastStep(record.data(), (int64_t{1} << 32) - 3);
  EXPECT_FALSE(rule->IsCurrent(record.data()));
  rule->CatchUp(record.data());
  EXPECT_EQ(record[0], -512 - 256 - 128);
  EXPECT_EQ(record[1], 128);
  EXPECT_TRUE(rule->IsCurrent(record.data()));
  EXPECT_EQ(rule->layout().LastStep(record.data()), 0);
}

TEST(DeferredMoves, ChangesNoBitOverALowerTierOrOnManyThreads) {
  const auto train = [](bool tiered, Executor* executor) {
    const auto table = OpenDrift(-1);
    if (tiered) (void)AddLowerTier(table.get(), std::make_unique<DramStore>(20));
    for (int64_t step = 1; step <= 12; ++step) {
      const auto ids = RandomIds(3000, 0, 2000, static_cast<uint64_t>(step));
      EXPECT_TRUE(IsOk(Kick(table.get(), ids, executor)));
      EXPECT_EQ(Demote(table.get(), ids.data(), 1500).ok(), tiered);
      (void)Lookup(table.get(), ids, executor);
    }
    return ExportAll(*table);
  };
  const Exported expected = train(false, Inline());
  ThreadExecutor executor(4);
  EXPECT_EQ(train(false, &executor), expected);
  EXPECT_EQ(train(true, Inline()), expected);
  EXPECT_EQ(train(true, &executor), expected);
}

}  // namespace keras_sparse::deferred_moves_test
