// Tables in a GPU's memory, by the operations that all tables have: each is the table in memory.

#include "ops/core/operations/check_room.h"
#include "tests/ops/core/device/device_testing.h"
#include "tests/ops/core/support/all_rule_cases.h"
#include "tests/ops/core/support/check_tiered_table.h"
#include "tests/ops/core/support/filter_testing.h"
#include "tests/ops/core/support/hbm_stacks.h"
#include "tests/ops/core/support/table_access.h"

namespace keras_sparse::hbm_table_test {

constexpr int64_t kDim = 7;

StorageOptions OnGpu() {
  StorageOptions storage;
  storage.device = OpenDevice();
  return storage;
}

// A table on a GPU and the same one in memory.
struct Pair {
  Pair(TableOptions options, const RuleOptions& rule) : plain(OpenWithRule(options, rule)) {
    options.storage.device = OpenDevice();
    on_gpu = OpenWithRule(options, rule);
  }
  std::vector<EmbeddingTable*> both() const { return {plain.get(), on_gpu.get()}; }

  void ExpectSameRows(const std::vector<int64_t>& ids) const {
    EXPECT_EQ(Bits(Lookup(on_gpu.get(), ids)), Bits(Lookup(plain.get(), ids)));
  }
  void ExpectSame() const {
    EXPECT_EQ(ExportAll(*on_gpu), ExportAll(*plain));
    EXPECT_EQ(StatsOf(*on_gpu).out_of_range_ids, StatsOf(*plain).out_of_range_ids);
    EXPECT_EQ(StatsOf(*on_gpu).hits, StatsOf(*plain).hits);
    EXPECT_EQ(StatsOf(*on_gpu).filtered_ids, StatsOf(*plain).filtered_ids);
    EXPECT_EQ(StatsOf(*on_gpu).created_rows, StatsOf(*plain).created_rows);
  }

  std::unique_ptr<EmbeddingTable> plain;
  std::unique_ptr<EmbeddingTable> on_gpu;
};

TEST(HbmTable, IsTheDynamicTableInMemory) {
  for (const RuleCase& rule : AllRuleCases()) {
    if (rule.name != "sgd" && rule.options.rule != "adagrad" && rule.name != "adam") continue;
    SCOPED_TRACE(rule.name);
    const auto numbers = [&rule](int64_t step) { return rule.Numbers({step, 0.1}); };
    CheckTieredTable(OnGpu(), rule.options, 20, numbers);
    for (const RecordTypes& types : kPackedTypes) {
      SCOPED_TRACE(NameOf(types));
      CheckTieredTable(OnGpu(), rule.options, 16, numbers, types);
    }
  }
}

TEST(HbmTable, IsTheStaticTableInMemoryForEveryRule) {
  constexpr int64_t kRows = 60;
  std::vector<std::pair<RuleCase, RecordTypes>> cases;
  for (const RuleCase& rule : AllRuleCases()) {
    const RecordTypes packed = kPackedTypes[cases.size() / 2 % std::size(kPackedTypes)];
    cases.emplace_back(rule, RecordTypes());
    cases.emplace_back(rule, packed);
  }
  for (const auto& [rule, types] : cases) {
    SCOPED_TRACE(rule.name + ", " + NameOf(types));
    TableOptions options = Packed(Options(kRows, kDim), types);
    options.out_of_range_is_zero = true;
    const Pair tables(options, rule.options);
    for (int64_t step = 1; step <= 4; ++step) {
      const auto seed = static_cast<uint64_t>(step);
      const std::vector<int64_t> ids = RandomIds(40, -5, kRows + 5, seed);
      ASSERT_TRUE(IsOk(ApplyToEach(tables.both(), rule.Numbers({step, 0.1}), ids,
                                   RandomFloats(40 * kDim, seed))));
      tables.ExpectSameRows(RandomIds(30, -5, kRows + 5, seed + 1));
    }
    tables.ExpectSame();
    ASSERT_TRUE(IsOk(ImportToEach(tables.both(), {3, 59, 3}, RandomFloats(3 * kDim, 1))));
    tables.ExpectSame();
    for (EmbeddingTable* table : tables.both()) ASSERT_TRUE(IsOk(ClearRows(table, Inline())));
    tables.ExpectSame();
  }
}

// Threads of TensorFlow take them for zero, those of tests do not.
TEST(HbmTable, KeepsNumbersBelowTheLeastNormalOne) {
  constexpr float kTiny = 1e-40f;
  for (const RuleOptions& rule : {SgdRule(), AdagradRule(1e-41, 1e-41), AdamRule()}) {
    TableOptions options = Options(20, kDim);
    options.initializer = {};
    const Pair tables(options, rule);
    for (uint64_t step = 1; step <= 5; ++step) {
      std::vector<float> grads = RandomFloats(40 * kDim, step);
      for (float& each : grads) each *= kTiny;
      for (EmbeddingTable* table : tables.both()) {
        const std::vector<float> numbers(rule.rule == "adam" ? 2 : 1, 0.5f);
        ASSERT_TRUE(IsOk(Apply(table, numbers, RandomIds(40, 0, 19, step), grads)));
      }
    }
    tables.ExpectSame();
    int64_t num_tiny = 0;
    for (const auto& [key, row] : ExportAll(*tables.on_gpu)) {
      for (const float each : row.record) num_tiny += std::fpclassify(each) == FP_SUBNORMAL ? 1 : 0;
    }
    EXPECT_GT(num_tiny, 100) << rule.rule;
  }
}

TEST(HbmTable, RefusesAnIdBeforeAnythingChanges) {
  TableOptions of_odd_keys = Dynamic(kDim);
  of_odd_keys.shard = 1;
  of_odd_keys.num_shards = 2;
  for (const TableOptions& options : {Options(10, kDim), of_odd_keys}) {
    const Pair tables(options, AdamRule());
    const std::vector<int64_t> ids = {3, 10, -2};
    std::vector<float> rows(3 * kDim);
    const std::string refusal = options.is_dynamic()
                                    ? "ids[1] = 10, whose row rank 0 owns"
                                    : "id must be in [0, 10) for table 'items'; out_of_range="
                                      "\"zero\" reads others as zeros. Received: ids[1] = 10";
    for (EmbeddingTable* table : tables.both()) {
      const int64_t version = VersionOf(*table);
      EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, refusal,
                            Apply(table, {0.1f, 0.1f}, ids, RandomFloats(3 * kDim, 1))));
      EXPECT_EQ(VersionOf(*table), version);
    }
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, refusal,
                          LookupOnDevice(tables.on_gpu.get(), ids, NoBags(ids), &rows, Inline())));
    EXPECT_TRUE(FailsWith(
        StatusCode::kInvalidArgument, refusal,
        LookupRows({{tables.plain.get(), ids.data(), NoBags(ids), rows.data()}}, Inline())));
    ASSERT_TRUE(IsOk(ApplyToEach(tables.both(), {0.1f, 0.1f}, {3, 9}, RandomFloats(2 * kDim, 1))));
    tables.ExpectSame();
  }
}

TEST(HbmTable, RefusesSplitsThatDoNotRiseBeforeAnythingChanges) {
  for (const TableOptions& options : {Options(20, kDim), Dynamic(kDim)}) {
    const Pair tables(options, SgdRule());
    const std::vector<int64_t> ids = {1, 2, 3};
    ASSERT_TRUE(IsOk(Subtract(tables.on_gpu.get(), ids, RandomFloats(3 * kDim, 1))));
    const auto before = ExportAll(*tables.on_gpu);
    const std::vector<int64_t> splits = {0, 2, 1, 3};
    const std::vector<float> grads = RandomFloats(3 * kDim, 2);
    EXPECT_TRUE(FailsWith(
        StatusCode::kInvalidArgument, "does not, at row_splits[1]",
        ApplyOnDevice({Request(tables.on_gpu.get(), ids, BagsOf(Combiner::kSum, splits), grads)},
                      Inline())));
    EXPECT_EQ(ExportAll(*tables.on_gpu), before);
  }
}

TEST(HbmTable, HasAStaticTableOfNoRows) {
  TableOptions options = Options(0, kDim);
  options.out_of_range_is_zero = true;
  const Pair tables(options, SgdRule());
  ASSERT_TRUE(IsOk(ApplyToEach(tables.both(), {1}, {0, -1}, RandomFloats(2 * kDim, 1))));
  tables.ExpectSameRows({0, 5});
  tables.ExpectSame();
}

TEST(HbmTable, AsksItsFilterForNewKeys) {
  for (const FilterOptions& filter : {Counter(2), Counter(3, true), Probability(0.5),
                                      Cbf(2, 100, 0.01, 8), Cbf(3, 100, 0.01, 8, true)}) {
    const Pair tables(Dynamic(kDim), AdagradRule(0.1));
    for (EmbeddingTable* table : tables.both()) ASSERT_TRUE(IsOk(SetFilter(table, filter)));
    for (uint64_t step = 1; step <= 6; ++step) {
      const std::vector<int64_t> ids = RandomIds(50, -40, 40, step);
      ASSERT_TRUE(IsOk(ApplyToEach(tables.both(), {0.1f}, ids, RandomFloats(50 * kDim, step))));
      tables.ExpectSameRows(ids);
    }
    tables.ExpectSame();
  }
}

TEST(HbmTable, KeepsToItsLimitOfRows) {
  const Pair tables(Dynamic(kDim), SgdRule());
  for (EmbeddingTable* table : tables.both()) {
    ASSERT_TRUE(IsOk(SetRowLimit(table, 50, MakePolicy(WeightBelow(2)))));
  }
  int64_t num_refused = 0;
  for (uint64_t step = 1; step <= 12; ++step) {
    const std::vector<int64_t> ids = RandomIds(20, 0, 60 + 5 * static_cast<int64_t>(step), step);
    const std::vector<float> grads = RandomFloats(20 * kDim, step);
    const Status plain = Subtract(tables.plain.get(), ids, grads);
    const Status on_gpu = Subtract(tables.on_gpu.get(), ids, grads);
    EXPECT_EQ(on_gpu.code(), plain.code()) << "step " << step;
    num_refused += plain.ok() ? 0 : 1;
    EXPECT_LE(NumRowsOf(*tables.on_gpu), 50);
  }
  EXPECT_GT(num_refused, 0);
  EXPECT_GT(StatsOf(*tables.on_gpu).evicted_rows, 0);
  tables.ExpectSame();
}

TEST(HbmTable, RefusesRowsBeyondItsSizeBeforeItMakesAny) {
  TableOptions options = Dynamic(kDim);
  options.storage = OnGpu();
  options.storage.sizes = {100 * 64};
  const auto table = OpenWithRule(options, AdagradRule(0.1));
  std::vector<int64_t> ids = Range(0, 300);
  const std::vector<float> grads = RandomFloats(300 * kDim, 1);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        "`storage_size` must hold all rows of table",
                        Apply(table.get(), {0.1f}, ids, grads)));
  EXPECT_EQ(NumRowsOf(*table), 0);
  ids.resize(50);
  EXPECT_TRUE(IsOk(Apply(table.get(), {0.1f}, ids, RandomFloats(50 * kDim, 1))));
  EXPECT_EQ(NumRowsOf(*table), 50);
}

TEST(HbmTable, TakesTablesOfOneGpuInAnOp) {
  const Pair tables(Dynamic(kDim), SgdRule());
  const std::vector<int64_t> ids = {1};
  std::vector<float> rows(kDim);
  std::vector<LookupRequest> requests;
  for (EmbeddingTable* table : {tables.on_gpu.get(), tables.plain.get()}) {
    requests.push_back({table, ids.data(), NoBags(ids), rows.data()});
  }
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                        "the tables of an op must all be in the memory of one GPU",
                        LookupRows(requests, Inline())));
}

#ifndef __CUDACC__
TEST(HbmTable, LosesNothingWhereTheGpuIsFull) {
  const emulated::Options before = emulated::options();
  const Pair tables(Dynamic(kDim), AdagradRule(0.1));
  std::vector<int64_t> ids = RandomIds(3000, 0, 100000, 1);
  const std::vector<float> grads = RandomFloats(3000 * kDim, 1);
  ASSERT_TRUE(IsOk(ApplyToEach(tables.both(), {0.1f}, {1, 2, 3}, RandomFloats(3 * kDim, 1))));
  emulated::options().memory = size_t{1300} << 10;
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "a table must fit the GPU's memory",
                        Apply(tables.on_gpu.get(), {0.1f}, ids, grads)));
  emulated::options() = before;
  tables.ExpectSameRows({1, 2, 3, 4});
  // Rows that it has made, if any, have not moved.
  ASSERT_TRUE(IsOk(ApplyToEach(tables.both(), {0.1f}, ids, grads)));
  tables.ExpectSameRows(ids);
}

TEST(HbmTable, HasNoRowWithoutContentWhateverMemoryIsMissing) {
  const Pair tables(Dynamic(kDim), SgdRule());
  const std::vector<int64_t> ids = {5, -7, 5, 1 << 30};
  const std::vector<float> grads = RandomFloats(4 * kDim, 1);
  // The emulated GPU's memory is that of the process.
  const ApplyRequest request = Request(tables.on_gpu.get(), ids, NoBags(ids), grads);
  FailAtEachAllocation([&] { return ApplyGradients({request}, Inline()); },
                       [&] { tables.ExpectSameRows({5, -7, 1 << 30, 0}); }, 11);
  ASSERT_TRUE(IsOk(Subtract(tables.plain.get(), ids, grads)));
  EXPECT_EQ(ExportAll(*tables.on_gpu), ExportAll(*tables.plain));
}

TEST(HbmTable, ReadsNoRowWhileOthersWaitForRoom) {
  const emulated::Options before = emulated::options();
  const Pair tables(Dynamic(kDim), SgdRule());
  const std::vector<int64_t> keys = Range(0, 3000);
  emulated::options().memory = size_t{1100} << 10;
  ASSERT_TRUE(IsOk(ImportToEach(tables.both(), keys, RandomFloats(3000 * kDim, 1))));
  std::vector<float> rows(kDim);
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "3000 rows that wait for room",
                        LookupOnDevice(tables.on_gpu.get(), {1}, NoBags({1}), &rows, Inline())));
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, "Received:",
                        Subtract(tables.on_gpu.get(), {1}, std::vector<float>(kDim, 1))));
  EXPECT_EQ(ExportAll(*tables.on_gpu), ExportAll(*tables.plain));
  emulated::options() = before;
  ASSERT_TRUE(IsOk(EraseRows(tables.on_gpu.get(), keys.data(), 1, Inline())));
  ASSERT_TRUE(IsOk(EraseRows(tables.plain.get(), keys.data(), 1, Inline())));
  tables.ExpectSameRows({0, 1, 2999, 5000});
  EXPECT_EQ(ExportAll(*tables.on_gpu), ExportAll(*tables.plain));
}
#endif

// Whole updates are seen, or nothing of them.
TEST(HbmTable, IsReadByManyThreadsWhileItIsUpdated) {
  TableOptions options = Dynamic(kDim);
  options.initializer = {};
  options.storage = OnGpu();
  const auto table = OpenWithRule(options, SgdRule());
  const std::vector<int64_t> ids = {5, -5, 1 << 20, 7};
  ReadEqualRowsWhile(table.get(), ids, [&] {
    for (int step = 0; step < 20; ++step) {
      ASSERT_TRUE(IsOk(Subtract(table.get(), ids, std::vector<float>(ids.size() * kDim, -1))));
    }
  });
  EXPECT_EQ(Lookup(table.get(), ids), std::vector<float>(ids.size() * kDim, 20));
}

}  // namespace keras_sparse::hbm_table_test
