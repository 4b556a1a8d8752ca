// A table over lower tiers is the table in memory alone, bit for bit.
#include "ops/core/operations/clear_rows.h"
#include "tests/ops/core/support/faulty_file_system.h"
#include "tests/ops/core/support/small_store.h"
#include "tests/ops/core/support/snapshot_testing.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::lower_tier_test {

// A table whose rows are (row, accumulator) of one float each, over a store that the test can see.
struct Tiered {
  std::unique_ptr<EmbeddingTable> table;
  DramStore* store;
};

Tiered OpenTiered(const TableOptions& options) {
  Tiered tiered;
  tiered.table = OpenWithRule(options, AdagradRule(0.1));
  auto store = std::make_unique<DramStore>(8 * options.output_dim);
  tiered.store = store.get();
  EXPECT_TRUE(IsOk(AddLowerTier(tiered.table.get(), std::move(store))));
  return tiered;
}

TEST(LowerTier, ChangesNoBitWhateverIsDemotedWhen) {
  for (const int64_t dim : {1, 5, 64}) {
    const TableOptions options = Dynamic(dim);
    const Tiered tiered = OpenTiered(options);
    const auto plain = OpenWithRule(options, AdagradRule(0.1));
    ThreadExecutor executor(2);
    for (int64_t step = 1; step <= 30; ++step) {
      const auto seed = static_cast<uint64_t>(step);
      const std::vector<int64_t> ids = RandomIds(200, -150, 150, seed);
      const std::vector<float> grads = RandomFloats(200 * dim, seed);
      ASSERT_TRUE(IsOk(Demote(tiered.table.get(), RandomIds(100, -200, 200, seed + 1))));
      ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0.1f}, ids, grads, &executor)));
      ASSERT_TRUE(IsOk(Apply(plain.get(), {0.1f}, ids, grads)));
      ASSERT_TRUE(IsOk(Demote(tiered.table.get(), RandomIds(300, -200, 200, seed + 2))));
      const std::vector<int64_t> splits = RandomSplits(50, 9, seed);
      const std::vector<int64_t> read = RandomIds(splits.back(), -200, 200, seed + 3);
      const Bags bags = BagsOf(Combiner::kMean, splits);
      ASSERT_EQ(Bits(Pool(tiered.table.get(), read, bags, &executor)),
                Bits(Pool(plain.get(), read, bags)));
      if (step % 10 == 0) {
        const std::vector<int64_t> keys = RandomIds(20, -200, 200, seed + 4);
        const std::vector<float> rows = RandomFloats(20 * dim, seed);
        ASSERT_TRUE(IsOk(ImportToEach({tiered.table.get(), plain.get()}, keys, rows, &executor)));
      }
      ASSERT_EQ(NumRowsOf(*tiered.table), NumRowsOf(*plain));
      ASSERT_EQ(ExportAll(*tiered.table, 7), ExportAll(*plain));
    }
    EXPECT_GT(tiered.store->num_rows(), 0);
    EXPECT_EQ(StatsOf(*tiered.table).created_rows, StatsOf(*plain).created_rows);
    EXPECT_EQ(StatsOf(*tiered.table).hits, StatsOf(*plain).hits);
  }
}

TEST(LowerTier, KeepsARowInOneTier) {
  const Tiered tiered = OpenTiered(Dynamic(1));
  ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0.1f}, {1, 2, 3}, {1, 1, 1})));
  ASSERT_TRUE(IsOk(Demote(tiered.table.get(), {2, 3, 3, 77})));
  EXPECT_EQ(tiered.store->num_rows(), 2);
  EXPECT_EQ(NumRowsOf(*tiered.table), 3);
  (void)Lookup(tiered.table.get(), {2});
  EXPECT_EQ(tiered.store->num_rows(), 2) << "a lookup moves nothing";
  ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0.1f}, {2}, {1})));
  EXPECT_EQ(tiered.store->num_rows(), 1);
  EXPECT_EQ(NumRowsOf(*tiered.table), 3);
  EXPECT_EQ(StatsOf(*tiered.table).created_rows, 3);
  const int64_t key = 3;
  const float row = 5;
  ASSERT_TRUE(IsOk(ImportRows(tiered.table.get(), &key, 1, &row, 1, Inline())));
  EXPECT_EQ(tiered.store->num_rows(), 0);
}

TEST(LowerTier, IsClearedWithTheTable) {
  const Tiered tiered = OpenTiered(Dynamic(1));
  ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0.1f}, {1, 2}, {1, 1})));
  ASSERT_TRUE(IsOk(Demote(tiered.table.get(), {1})));
  ASSERT_TRUE(IsOk(ClearRows(tiered.table.get(), Inline())));
  EXPECT_EQ(tiered.store->num_rows(), 0);
  EXPECT_EQ(NumRowsOf(*tiered.table), 0);
  EXPECT_EQ(Lookup(tiered.table.get(), {1}), InitialRow(Dynamic(1), 1));
}

TEST(LowerTier, EndsAnExportWhenRowsMove) {
  const Tiered tiered = OpenTiered(Dynamic(1));
  ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0.1f}, {1, 2}, {1, 1})));
  ASSERT_TRUE(IsOk(Demote(tiered.table.get(), {1})));
  ExportedRows rows;
  ASSERT_TRUE(IsOk(ExportRows(*tiered.table, 0, 1, &rows)));
  ASSERT_GT(rows.next_cursor, 0);
  ASSERT_TRUE(IsOk(Demote(tiered.table.get(), {2})));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "must not change",
                        ExportRows(*tiered.table, rows.next_cursor, 1, &rows)));
}

TEST(LowerTier, MayLieBelowAnother) {
  const Tiered tiered = OpenTiered(Dynamic(1));
  auto store = std::make_unique<DramStore>(8);
  const std::vector<int64_t> keys = {5, 6, 7};
  const std::vector<float> records = {50, 1, 60, 2, 70, 3};
  ASSERT_TRUE(IsOk(store->Put(keys.data(), 3, reinterpret_cast<const char*>(records.data()))));
  const DramStore* slowest = store.get();
  ASSERT_TRUE(IsOk(AddLowerTier(tiered.table.get(), std::move(store))));
  EXPECT_EQ(Lookup(tiered.table.get(), {6, 7, 5}), (std::vector<float>{60, 70, 50}));
  ASSERT_TRUE(IsOk(Apply(tiered.table.get(), {0}, {6}, {2})));
  EXPECT_EQ(slowest->num_rows(), 2);
  ASSERT_TRUE(IsOk(Demote(tiered.table.get(), {6})));
  EXPECT_EQ(tiered.store->num_rows(), 1);
  const Exported all = ExportAll(*tiered.table, 1);
  EXPECT_EQ(all.size(), 3u);
  EXPECT_EQ(all.at(6).record, (std::vector<float>{60, 6}));
  EXPECT_EQ(StatsOf(*tiered.table).hits, 3);
}

TEST(LowerTier, ThatFailsFailsTheCallAndLosesNothing) {
  const auto table = OpenWithRule(Dynamic(1), AdagradRule(0.1));
  auto owned = std::make_unique<SmallStore>(8, 1000);
  SmallStore* store = owned.get();
  ASSERT_TRUE(IsOk(AddLowerTier(table.get(), std::move(owned))));
  ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, {1, 2, 3}, {1, 1, 1})));
  ASSERT_TRUE(IsOk(Demote(table.get(), {1})));
  const Exported before = ExportAll(*table);

  store->fails_get = true;
  std::vector<float> row(1);
  const std::vector<int64_t> ids = {1};
  EXPECT_TRUE(
      FailsWith(StatusCode::kDataLoss, "record 3 is damaged",
                LookupRows({{table.get(), ids.data(), NoBags(ids), row.data()}}, Inline())));
  EXPECT_EQ(Apply(table.get(), {0.1f}, {2, 1}, {1, 1}).code(), StatusCode::kDataLoss);
  EXPECT_EQ(ImportAll(table.get(), ids, row).code(), StatusCode::kDataLoss);
  store->puts_left = 0;
  EXPECT_TRUE(
      FailsWith(StatusCode::kResourceExhausted, "the disk is full", Demote(table.get(), {2})));
  EXPECT_EQ(ExportAll(*table), before);
}

TEST(LowerTier, ThatKeepsARowItShouldDropDoesNotBringItBack) {
  const auto table = OpenWithRule(Dynamic(1), SgdRule());
  auto owned = std::make_unique<SmallStore>(4, 1000);
  SmallStore* store = owned.get();
  ASSERT_TRUE(IsOk(AddLowerTier(table.get(), std::move(owned))));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {7}, {1})));
  ASSERT_TRUE(IsOk(Demote(table.get(), {7})));
  store->fails_erase = true;
  EXPECT_EQ(Subtract(table.get(), {7}, {1}).code(), StatusCode::kDataLoss);
  store->fails_erase = false;
  ASSERT_TRUE(IsOk(Subtract(table.get(), {7}, {1})));
  // ExportAll fails if a key comes twice.
  EXPECT_EQ(ExportAll(*table).at(7).record, Lookup(table.get(), {7}));
}

TEST(LowerTier, HasNoOldRowToLinkAfterADemotionThatFailed) {
  const TempFolder folder;
  FaultyFileSystem file_system;
  const auto table = OpenWithRule(Dynamic(8), SgdRule());
  auto store = OpenSsd(SsdOf(folder / "store", 32, 2048, &file_system));
  const RowStore* below = store.get();
  ASSERT_TRUE(IsOk(AddLowerTier(table.get(), std::move(store))));
  const std::vector<int64_t> ids = Range(0, 1000);
  ASSERT_TRUE(IsOk(Subtract(table.get(), ids, RandomFloats(8000, 1))));
  file_system.writes_left = 7;
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "could not write",
                        Demote(table.get(), ids.data(), 1000)));
  file_system.writes_left = INT64_MAX;
  EXPECT_EQ(below->num_rows(), 0);
  EXPECT_EQ(NumRowsOf(*table), 1000);
  ASSERT_TRUE(IsOk(Subtract(table.get(), ids, RandomFloats(8000, 2))));
  ASSERT_TRUE(IsOk(Demote(table.get(), ids.data() + 900, 100)));
  SavedTable saved;
  saved.LinkAll(table.get());
  EXPECT_EQ(saved.Load(), ExportRaw(table.get()));
}

}  // namespace keras_sparse::lower_tier_test
