// A table in a GPU's memory over lower tiers is the table in memory alone, bit for bit.
#include <tuple>

#include "ops/core/operations/check_room.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/check_tiered_table.h"
#include "tests/ops/core/support/filter_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/snapshot_testing.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::hbm_tiers_test {

constexpr int64_t kDim = 8;
constexpr int64_t kRowBytes = 4 * kDim + 32;  // of plain rows, with what is beside them

class HbmTiers : public ::testing::TestWithParam<Tiers> {
 protected:
  void SetUp() override {
    if (!AreInThisBuild(GetParam())) GTEST_SKIP() << "not in this build";
  }

  StorageOptions Storage(int64_t hbm_bytes, int64_t middle_bytes,
                         const std::string& strategy = "LRU") {
    return HbmOver(GetParam(), hbm_bytes, middle_bytes,
                   folder_ / ("rows" + std::to_string(num_tables_++)), strategy);
  }

  const TempFolder folder_;
  int num_tables_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Over, HbmTiers, ::testing::ValuesIn(HbmStacks()),
                         [](const auto& param) { return NameOf(param.param); });

// From GPU memory that holds nothing between two updates to one that holds all.
TEST_P(HbmTiers, AreTheTableInMemoryBitForBit) {
  for (const auto& [hbm_bytes, middle_bytes, strategy] :
       std::vector<std::tuple<int64_t, int64_t, std::string>>{{1, 1, "LRU"},
                                                              {1, 40000, "LFU"},
                                                              {60000, 3000, "LRU"},
                                                              {60000, 60000, "LFU"},
                                                              {4 << 20, 1, "LRU"}}) {
    const RuleOptions rule = hbm_bytes == 1 ? AdamRule() : AdagradRule(0.1);
    SCOPED_TRACE(hbm_bytes);
    CheckTieredTable(HbmOver(GetParam(), hbm_bytes, middle_bytes, "", strategy), rule, 16);
    const RecordTypes packed = kPackedTypes[middle_bytes == 1 ? 0 : 2];
    CheckTieredTable(HbmOver(GetParam(), hbm_bytes, middle_bytes, "", strategy), AdamRule(), 16,
                     packed);
  }
}

TEST_P(HbmTiers, HaveTheRowsThatAreUsedOnTheGpuAndSayWhatTheyDid) {
  for (const char* strategy : {"LRU", "LFU"}) {
    TableOptions options = Dynamic(kDim);
    options.storage = Storage(600 * kRowBytes, 200000, strategy);
    const auto table = OpenWithRule(options, SgdRule());
    const std::vector<int64_t> hot = Range(0, 100);
    for (uint64_t step = 0; step < 20; ++step) {
      std::vector<int64_t> ids = RandomIds(100, 1 << 20, 1 << 30, step);
      ids.insert(ids.end(), hot.begin(), hot.end());
      ASSERT_TRUE(IsOk(Subtract(table.get(), ids, RandomFloats(200 * kDim, step))));
      EXPECT_LE(TierStatsOf(*table)[0].rows, 600);
    }
    (void)Lookup(table.get(), hot);
    std::vector<TierStats> stats = TierStatsOf(*table);
    ASSERT_EQ(stats.size(), GetParam().size() + 1);
    EXPECT_EQ(stats[0].hits, 100) << strategy;
    EXPECT_EQ(stats[0].misses, 0);
    EXPECT_EQ(stats[0].promotions, 0);
    EXPECT_EQ(stats[0].demotions, 2100 - stats[0].rows);
    EXPECT_GE(stats[0].rows, 450);
    int64_t num_rows = 0;
    for (size_t i = 0; i < stats.size(); ++i) {
      num_rows += stats[i].rows;
      EXPECT_EQ(stats[i].tier, i == 0 ? "hbm" : GetParam()[i - 1]);
    }
    EXPECT_EQ(num_rows, 2100);
    // Cold rows are read where they are; an update brings them up.
    const std::vector<int64_t> cold = RandomIds(100, 1 << 20, 1 << 30, 0);
    (void)Lookup(table.get(), cold);
    EXPECT_EQ(TierStatsOf(*table)[0].misses, 100);
    EXPECT_EQ(StatsOf(*table).hits, 200);
    EXPECT_EQ(TierStatsOf(*table)[0].promotions, 0);
    ASSERT_TRUE(IsOk(Subtract(table.get(), cold, RandomFloats(100 * kDim, 1))));
    EXPECT_EQ(TierStatsOf(*table)[0].promotions, 100);
    EXPECT_EQ(StatsOf(*table).created_rows, 2100);
  }
}

TEST_P(HbmTiers, KeepSlotsFiltersAndLimitsOfRows) {
  TableOptions options = Dynamic(kDim);
  const auto plain = OpenWithRule(options, AdagradRule(0.1));
  options.storage = Storage(100 * 96, 10000);
  const auto tiered = OpenWithRule(options, AdagradRule(0.1));
  for (EmbeddingTable* table : {tiered.get(), plain.get()}) {
    ASSERT_TRUE(IsOk(SetFilter(table, Counter(2))));
    ASSERT_TRUE(IsOk(SetRowLimit(table, 400, MakePolicy(WeightBelow(3)))));
  }
  int64_t num_refused = 0;
  for (uint64_t step = 1; step <= 30; ++step) {
    const std::vector<int64_t> ids = RandomIds(120, 0, 400 + 20 * static_cast<int64_t>(step), step);
    const std::vector<float> grads = RandomFloats(120 * kDim, step);
    const Status expected = Apply(plain.get(), {0.1f}, ids, grads);
    ASSERT_EQ(Apply(tiered.get(), {0.1f}, ids, grads).code(), expected.code()) << step;
    num_refused += expected.ok() ? 0 : 1;
    ASSERT_EQ(Bits(Lookup(tiered.get(), ids)), Bits(Lookup(plain.get(), ids))) << step;
  }
  EXPECT_GT(StatsOf(*tiered).evicted_rows, 0);
  EXPECT_EQ(StatsOf(*tiered).filtered_ids, StatsOf(*plain).filtered_ids);
  EXPECT_EQ(StatsOf(*tiered).waiting_keys, StatsOf(*plain).waiting_keys);
  EXPECT_GT(TierStatsOf(*tiered)[0].promotions, 0);
  EXPECT_EQ(ExportAll(*tiered), ExportAll(*plain));
  // Rows that go are gone in all tiers, and do not come up again.
  const std::vector<int64_t> gone = Range(0, 300);
  for (EmbeddingTable* table : {tiered.get(), plain.get()}) {
    ASSERT_TRUE(IsOk(EraseRows(table, gone.data(), 300, Inline())));
  }
  EXPECT_EQ(ExportAll(*tiered), ExportAll(*plain));
  EXPECT_EQ(Bits(Lookup(tiered.get(), gone)), Bits(Lookup(plain.get(), gone)));
}

TEST_P(HbmTiers, AreSavedByLinksAndRecords) {
  TableOptions options = Dynamic(kDim);
  options.storage = Storage(50 * kRowBytes, 6000);
  const auto table = OpenWithRule(options, SgdRule());
  for (uint64_t step = 0; step < 6; ++step) {
    const std::vector<int64_t> ids = RandomIds(200, 0, 1000, step);
    ASSERT_TRUE(IsOk(Subtract(table.get(), ids, RandomFloats(200 * kDim, step))));
  }
  SavedTable saved;
  saved.LinkAll(table.get());
  EXPECT_EQ(saved.Load(), ExportRaw(table.get()));
  EXPECT_EQ(ExportAll(*table, 7), ExportAll(*table, 1000));
}

TEST_P(HbmTiers, TakeImportsOfMoreRowsThanTheGpuHolds) {
  TableOptions options = Dynamic(kDim);
  const auto plain = OpenWithRule(options, AdagradRule(0.1));
  options.storage = Storage(100 * 96, 20000);
  const auto tiered = OpenWithRule(options, AdagradRule(0.1));
  const std::vector<int64_t> keys = Range(0, 1000);
  const std::vector<int64_t> some = RandomIds(100, 0, 1000, 4);
  for (EmbeddingTable* table : {tiered.get(), plain.get()}) {
    ASSERT_TRUE(IsOk(ImportAll(table, keys, RandomFloats(1000 * 2 * kDim, 1))));
    // Rows alone, which keep their slots, wherever they are.
    ASSERT_TRUE(IsOk(ImportAll(table, some, RandomFloats(100 * kDim, 2))));
  }
  EXPECT_LE(TierStatsOf(*tiered)[0].rows, 100);
  EXPECT_EQ(ExportAll(*tiered), ExportAll(*plain));
}

TEST(HbmTiersOps, TakeTablesOverAnyTiersAtOnce) {
  // Over memory, of which some is cold, and on a GPU alone: both of one GPU.
  const StorageOptions over_memory = HbmOver({"dram"}, 30 * kRowBytes, 1);
  StorageOptions alone;
  alone.device = over_memory.device;
  constexpr size_t kTables = 3;
  std::vector<std::unique_ptr<EmbeddingTable>> tables;
  for (const bool on_gpu : {true, false}) {
    for (const StorageOptions& storage : {over_memory, alone}) {
      TableOptions options = Dynamic(kDim, static_cast<int64_t>(tables.size() % kTables));
      if (on_gpu) options.storage = storage;
      tables.push_back(OpenWithRule(options, SgdRule()));
    }
    TableOptions options = Options(50, kDim);
    if (on_gpu) options.storage = alone;
    tables.push_back(OpenWithRule(options, SgdRule()));
  }
  for (uint64_t step = 0; step < 8; ++step) {
    const std::vector<int64_t> ids = RandomIds(40, 0, 49, step);
    const std::vector<int64_t> more = RandomIds(40, 0, 300, step);
    const std::vector<float> grads = RandomFloats(40 * kDim, step);
    std::vector<ApplyRequest> requests;
    for (size_t i = 0; i < tables.size(); ++i) {
      const std::vector<int64_t>& of_table = i % kTables == 2 ? ids : more;
      requests.push_back(Request(tables[i].get(), of_table, NoBags(of_table), grads));
    }
    const auto middle = requests.begin() + kTables;
    ASSERT_TRUE(IsOk(ApplyOnDevice({requests.begin(), middle}, Inline())));
    ASSERT_TRUE(IsOk(ApplyGradients({middle, requests.end()}, Inline())));
    for (size_t i = 0; i < kTables; ++i) {
      ASSERT_EQ(ExportAll(*tables[i]), ExportAll(*tables[kTables + i]));
    }
  }
  EXPECT_GT(TierStatsOf(*tables[0])[0].promotions, 0);
}

TEST(HbmTiersOps, GiveTheGradientOfWeightsOfLowerTierReads) {
  TableOptions options = Dynamic(kDim);
  const auto plain = OpenWithRule(options, AdamRule());
  options.storage = HbmOver({"dram"}, 30 * 128, 1);
  const auto tiered = OpenWithRule(options, AdamRule());
  for (uint64_t step = 0; step < 4; ++step) {  // the rows have missed steps
    ASSERT_TRUE(IsOk(ApplyToEach({tiered.get(), plain.get()}, {0.1f, 0.1f},
                                 RandomIds(50, 0, 150, step), RandomFloats(50 * kDim, step))));
  }
  const std::vector<int64_t> ids = RandomIds(60, 0, 200, 9);
  const std::vector<float> weights = RandomFloats(60, 9);
  const std::vector<float> grads = RandomFloats(3 * kDim, 9);
  const std::vector<int64_t> splits = {0, 7, 20, 60};
  const Bags bags = BagsOf(Combiner::kMean, splits, weights);
  ASSERT_EQ(Bits(Pool(tiered.get(), ids, bags)), Bits(Pool(plain.get(), ids, bags)));
  std::vector<float> expected(60);
  ASSERT_TRUE(IsOk(LookupWeightsGradient(
      {{plain.get(), ids.data(), bags, grads.data(), expected.data(), VersionOf(*plain)}},
      Inline())));
  DeviceCopies copies(*tiered);
  const auto found = OnDevice(tiered->options().storage.device.get(), std::vector<float>(60));
  ASSERT_TRUE(IsOk(
      LookupWeightsGradient({{tiered.get(), copies.Of(ids.data(), 60), copies.Of(bags),
                              copies.Of(grads.data(), 3 * kDim), found.data(), VersionOf(*tiered)}},
                            Inline())));
  EXPECT_EQ(Bits(Values(found)), Bits(expected));
  EXPECT_GT(TierStatsOf(*tiered)[1].hits, 0);
}

// Whatever a rule does to rows that have missed its steps, it does so in every tier.
TEST(HbmTiersRules, AllGiveTheTableInMemoryBitForBit) {
  const std::vector<RuleCase> cases = AllRuleCases();
  std::set<std::string> seen;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!seen.insert(cases[i].options.rule).second) continue;  // other constants of the same
    SCOPED_TRACE(cases[i].name);
    const char* strategy = i % 2 == 0 ? "LRU" : "LFU";
    for (const RecordTypes& types : {RecordTypes(), kPackedTypes[i % std::size(kPackedTypes)]}) {
      CheckTieredTable(
          HbmOver({"dram", "ssdhash"}, 30000, 20000, "", strategy), cases[i].options, 4,
          [&](int64_t step) { return cases[i].Numbers({step, 0.1 / static_cast<double>(step)}); },
          types);
    }
  }
}

TEST(HbmTiersOptions, AreChecked) {
  const TempFolder folder;
  std::unique_ptr<EmbeddingTable> table;
  TableOptions options = Dynamic(4);
  options.storage = HbmOver({"dram"}, 1000, 1000, "", "FIFO");
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "`cache_strategy` must be one of",
                        EmbeddingTable::Open(options, Inline(), &table)));
  options.storage = HbmOver({"ssdhash", "dram"}, 1000, 1000, folder / "rows");
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "ssdhash does not; make it the last one",
                        EmbeddingTable::Open(options, Inline(), &table)));
  options.storage = HbmOver({"dram"}, 1000, 1000);
  options.storage.sizes.pop_back();
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "a size above 0 for each of the 2 tiers",
                        EmbeddingTable::Open(options, Inline(), &table)));
  options = Options(10, 4);
  options.storage = HbmOver({"dram"}, 1000, 1000);
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "must be that of a dynamic table",
                        EmbeddingTable::Open(options, Inline(), &table)));
  EXPECT_TRUE(folder.Contents().empty());
  options.storage.sizes = {int64_t{1} << 50};  // of a GPU without lower tiers, too
  options.storage.lower_tiers.clear();
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "`storage_size` of table 'items' must be no more than what tables may have "
                        "of the GPU's memory",
                        EmbeddingTable::Open(options, Inline(), &table)));
}

}  // namespace keras_sparse::hbm_tiers_test
