// A table over a small first tier and an SSD is the table in memory alone, bit for bit.
#include <tuple>

#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/check_tiered_table.h"
#include "tests/ops/core/support/snapshot_testing.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::tiered_table_test {

TableOptions Tiered(const std::string& path, int64_t dim, int64_t first_bytes,
                    const std::string& strategy = "LRU") {
  TableOptions options = Dynamic(dim);
  options.storage = {{"ssdhash"}, {first_bytes, int64_t{1} << 30}, path, strategy};
  return options;
}

class TieredTable : public ::testing::TestWithParam<std::tuple<std::string, int64_t>> {};

TEST_P(TieredTable, IsTheTableInMemoryBitForBit) {
  const auto& [strategy, first_bytes] = GetParam();
  const StorageOptions storage = {{"ssdhash"}, {first_bytes, int64_t{1} << 30}, "", strategy};
  for (const RuleOptions& rule : {AdagradRule(0.1), AdamRule()}) CheckTieredTable(storage, rule);
  for (const RecordTypes& types : kPackedTypes) {
    SCOPED_TRACE(NameOf(types));
    CheckTieredTable(storage, AdamRule(), 20, types);
  }
}

// From a tier that holds nothing between two updates to one that holds nearly all.
INSTANTIATE_TEST_SUITE_P(Sizes, TieredTable,
                         ::testing::Combine(::testing::Values("LRU", "LFU"),
                                            ::testing::Values(1, 4000, 40000, 200000, 1 << 20)),
                         [](const auto& param) {
                           return std::get<0>(param.param) + "_" +
                                  std::to_string(std::get<1>(param.param));
                         });

TEST(TieredTableRules, AllGiveTheTableInMemoryBitForBit) {
  const std::vector<RuleCase> cases = AllRuleCases();
  const size_t num_forms = cases.size() / 2;
  for (size_t i = 0; i < num_forms; ++i) {
    const bool is_odd = i % 2 == 1;
    const RuleCase& rule_case = cases[is_odd ? num_forms + i : i];  // every second one decays
    SCOPED_TRACE(rule_case.name);
    const char* strategy = is_odd ? "LRU" : "LFU";
    for (const RecordTypes& types : {RecordTypes(), kPackedTypes[i % std::size(kPackedTypes)]}) {
      CheckTieredTable(
          {{"ssdhash"}, {8000, int64_t{1} << 30}, "", strategy}, rule_case.options, 20,
          [&rule_case](int64_t step) {
            return rule_case.Numbers({step, 0.1 / static_cast<double>(step)});
          },
          types);
    }
  }
}

// Once a rule remembers much, the rows of all tiers catch up with it.
TEST(TieredTableHistory, IsForgottenAsInMemory) {
  for (const RecordTypes& types : {RecordTypes(), kPackedTypes[0], kPackedTypes[2]}) {
    const TempFolder folder;
    std::vector<std::unique_ptr<EmbeddingTable>> tables;
    for (TableOptions options : {Dynamic(5), Tiered(folder / "ssd", 5, 1000)}) {
      tables.push_back(OpenWithRule(Packed(options, types), AdamRule()));
      EmbeddingTable* table = tables.back().get();
      ASSERT_TRUE(IsOk(Apply(table, {1, 1}, Range(-30, 30), RandomFloats(60 * 5, 1))));
      ASSERT_TRUE(IsOk(MarkSaved(table)));
      const auto has_forgotten = [&] { return TableSnapshot(table).is_everything_changed(); };
      for (int step = 2; step < 100000 && !has_forgotten(); ++step) {
        const float rate = 1.0f / static_cast<float>(step);  // remembered by itself
        ASSERT_TRUE(IsOk(Apply(table, {rate, rate}, {}, {})));
      }
      ASSERT_TRUE(has_forgotten());
    }
    EXPECT_EQ(ExportRaw(tables[1].get()), ExportRaw(tables[0].get())) << NameOf(types);
    EXPECT_EQ(HistoryOf(*tables[1]).step, HistoryOf(*tables[0]).step);
  }
}

TEST(TieredTableSize, IsKeptWithinAFewPercent) {
  for (const int64_t first_bytes : {int64_t{1} << 20, int64_t{6} << 20}) {
    for (const int64_t dim : {8, 64}) {
      const TempFolder folder;
      const TableOptions options = Tiered(folder / "ssd", dim, first_bytes);
      const auto table = OpenWithRule(options, AdagradRule(0.1));
      ThreadExecutor executor(2);
      const int64_t rows = 2 * first_bytes / (8 * dim);
      for (int64_t step = 0; step < 20; ++step) {
        const std::vector<int64_t> ids =
            RandomIds(rows / 10, 0, int64_t{1} << 60, static_cast<uint64_t>(step));
        const std::vector<float> grads(ids.size() * static_cast<size_t>(dim), 1.0f);
        ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, grads, &executor)));
        ASSERT_LE(FirstTierBytes(*table), first_bytes * 105 / 100);
      }
      EXPECT_GE(FirstTierBytes(*table), first_bytes * 90 / 100);
    }
  }
}

TEST(TieredTableSize, MayBeLessThanABatchNeeds) {
  const TempFolder folder;
  const auto table = OpenWithRule(Tiered(folder / "ssd", 64, 1 << 20), AdagradRule(0.1));
  const std::vector<int64_t> ids = RandomIds(50000, 0, int64_t{1} << 60, 1);
  const std::vector<float> grads(50000 * 64, 1.0f);
  for (int64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, grads)));
    EXPECT_EQ(NumRowsOf(*table), 50000);
    EXPECT_LE(FirstTierBytes(*table), (1 << 20) * 105 / 100);
  }
}

TEST(TieredTableOrder, KeepsTheRowsThatAreUsed) {
  for (const char* strategy : {"LRU", "LFU"}) {
    const TempFolder folder;
    const auto table = OpenWithRule(Tiered(folder / "ssd", 64, 2 << 20, strategy), SgdRule());
    std::vector<int64_t> hot(1000);
    for (size_t i = 0; i < hot.size(); ++i) hot[i] = static_cast<int64_t>(i);
    for (int64_t step = 0; step < 50; ++step) {
      std::vector<int64_t> ids = RandomIds(1000, 1 << 20, 1 << 30, static_cast<uint64_t>(step));
      ids.insert(ids.end(), hot.begin(), hot.end());
      const std::vector<float> grads(ids.size() * 64, 1.0f);
      ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, grads)));
    }
    EXPECT_EQ(CountInFirstTier(*table, hot.data(), 1000), 1000) << strategy;
    EXPECT_GT(NumRowsOf(*table), 40000);
  }
}

TEST(TieredTableOptions, AreChecked) {
  const TempFolder folder;
  std::unique_ptr<EmbeddingTable> table;
  TableOptions options = Tiered(folder / "ssd", 4, 1000);
  options.input_dim = 10;
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "must be that of a dynamic table",
                        EmbeddingTable::Open(options, Inline(), &table)));
  options = Tiered(folder / "ssd", 4, 0);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "a size above 0 for each of the 2 tiers",
                        EmbeddingTable::Open(options, Inline(), &table)));
  options = Tiered(folder / "ssd", 4, 1000, "FIFO");
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "`cache_strategy` must be one of",
                        EmbeddingTable::Open(options, Inline(), &table)));
  options = Tiered(folder / "ssd", 4, 1000);
  options.storage.lower_tiers = {"tape"};
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "'ssdhash'",
                        EmbeddingTable::Open(options, Inline(), &table)));
  EXPECT_TRUE(folder.Contents().empty());
}

TEST(TieredTableOptions, LetNoRowGoWhenTheLastTierIsFull) {
  const TempFolder folder;
  TableOptions options = Tiered(folder / "ssd", 64, 1 << 20);
  options.storage.sizes[1] = 1 << 20;
  const auto table = OpenWithRule(options, SgdRule());
  const auto plain = OpenWithRule(Dynamic(64), SgdRule());
  const Status status = CheckFullLastTier(table.get(), plain.get());
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "give it more in `storage_size`", status));
  // Nor does another rule find room for its slots, and the table is as it was.
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "give it more in `storage_size`",
                        SetRule(table.get(), AdagradRule(0.1), Inline())));
  EXPECT_EQ(ExportAll(*table), ExportAll(*plain));
}

TEST(TieredTableOptions, ImportReplacesARowThatTheDiskHasDamaged) {
  const TempFolder folder;
  const auto table = OpenWithRule(Tiered(folder / "ssd", 64, 1), AdagradRule(0.1));
  const std::vector<int64_t> ids = RandomIds(4000, 0, 1 << 30, 1);
  ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, RandomFloats(4000 * 64, 1))));
  EXPECT_EQ(StatsOf(*table).rows, 4000);  // which waits for what the background writes
  std::string segment;
  for (const std::string& path : folder.Contents()) {
    if (path.find("000000.seg") != std::string::npos) segment = path;
  }
  FlipByte(folder / segment, 64 + 100);
  Status status;
  ExportedRows exported;
  for (int64_t cursor = 0; cursor >= 0 && status.ok(); cursor = exported.next_cursor) {
    status = ExportRows(*table, cursor, 10000, &exported);
  }
  EXPECT_TRUE(FailsWith(StatusCode::kDataLoss, "000000.seg", status));
  const std::vector<float> records = RandomFloats(4000 * 128, 2);
  ASSERT_TRUE(IsOk(ImportAll(table.get(), ids, records)));
  const auto plain = OpenWithRule(Dynamic(64), AdagradRule(0.1));
  ASSERT_TRUE(IsOk(ImportAll(plain.get(), ids, records)));
  EXPECT_EQ(ExportAll(*table), ExportAll(*plain));
}

}  // namespace keras_sparse::tiered_table_test
