// What a policy lets go, in memory; ages. tiered_eviction_test.cc has lower tiers.
#include "ops/core/operations/evict_rows.h"

#include "tests/ops/core/support/drift_rule.h"
#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/filter_testing.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse::evict_rows_test {

using Row = std::vector<float>;
using AgeOfKey = std::map<int64_t, uint32_t>;

TEST(EvictRows, GivesTheRowsThatGo) {
  const auto table = OpenWithRule(Dynamic(2), DriftRule());
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2}, {1024, 1024, 2048, 2048})));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {2}, {4096, 4096})));
  const Exported before = ExportAll(*table);
  ExportedRows rows;
  int64_t num_evicted = 0;
  ASSERT_TRUE(
      IsOk(EvictRows(table.get(), *MakePolicy(WeightBelow(1e7)), Inline(), &num_evicted, &rows)));
  EXPECT_EQ(num_evicted, 1);
  EXPECT_EQ(rows.keys, std::vector<int64_t>{1});
  EXPECT_EQ(rows.record_floats, 4);
  EXPECT_EQ(rows.records, before.at(1).record);  // with the move that it has missed
  ASSERT_TRUE(
      IsOk(EvictRows(table.get(), *MakePolicy(WeightBelow(1e7)), Inline(), &num_evicted, &rows)));
  EXPECT_EQ(rows.keys.size() + rows.records.size(), 0u);
}

TEST(EvictRows, LetsAKeyStartAnew) {
  for (const RuleOptions& rule : {AdagradRule(0.5), AdamRule()}) {
    const auto table = OpenWithRule(Aging(Dynamic(3)), rule);
    const auto fresh = OpenWithRule(Aging(Dynamic(3)), rule);
    const Row numbers = rule.rule == "adam" ? Row{0.1f, 0.1f} : Row{0.1f};
    ASSERT_TRUE(IsOk(Apply(table.get(), numbers, {4}, {1, 2, 3})));
    PassSteps(table.get(), numbers, 2);
    PassSteps(fresh.get(), numbers, 3);
    EXPECT_EQ(Evict(table.get(), OlderThan(1)), 1);
    EXPECT_EQ(Lookup(table.get(), {4}), InitialRow(Dynamic(3), 4));
    ASSERT_TRUE(IsOk(ApplyToEach({table.get(), fresh.get()}, numbers, {4}, {3, 2, 1})));
    EXPECT_EQ(ExportAll(*table), ExportAll(*fresh));
    EXPECT_EQ(StatsOf(*table).created_rows, 2);
  }
}

TEST(EvictRows, FollowsFloat64AndTheStepsOfEachKey) {
  // Adam moves rows and weight decay shrinks them; the reference asks for each row by a lookup.
  RuleOptions rule = AdamRule();
  rule.weight_decay = 0.5;
  const auto table = OpenWithRule(Aging(Dynamic(5)), rule);
  ThreadExecutor executor(3);
  std::map<int64_t, int64_t> gradient_steps;
  int64_t num_all_evicted = 0;
  for (int64_t step = 1; step <= 40; ++step) {
    const std::vector<int64_t> ids = RandomIds(60, -200, 200, static_cast<uint64_t>(step));
    const Row grads = RandomFloats(300, static_cast<uint64_t>(step));
    ASSERT_TRUE(IsOk(Apply(table.get(), {0.1f, 0.1f}, ids, grads, &executor)));
    for (const int64_t id : ids) gradient_steps[id] = step;
    if (step % 4 != 0) continue;
    const bool by_age = step % 8 == 0;
    std::map<int64_t, int64_t> left;
    for (const auto& [key, gradient_step] : gradient_steps) {
      if (by_age ? step - gradient_step <= 6 : WeightOf(table.get(), key) >= 0.6) {
        left[key] = gradient_step;
      }
    }
    const auto num_evicted = static_cast<int64_t>(gradient_steps.size() - left.size());
    EXPECT_GT(num_evicted, 0);
    EXPECT_EQ(Evict(table.get(), by_age ? OlderThan(6) : WeightBelow(0.6), &executor), num_evicted);
    EXPECT_EQ(Evict(table.get(), by_age ? OlderThan(6) : WeightBelow(0.6)), 0) << "again";
    num_all_evicted += num_evicted;
    EXPECT_EQ(StatsOf(*table).evicted_rows, num_all_evicted);
    EXPECT_EQ(NumRowsOf(*table), static_cast<int64_t>(left.size()));
    gradient_steps = left;
    AgeOfKey ages;
    for (const auto& [key, at] : left) ages[key] = static_cast<uint32_t>(step - at);
    EXPECT_EQ(Ages(*table), ages);
  }
}

TEST(EvictRows, WeighsPackedRowsAsLookupsReadThem) {
  for (const RecordTypes& types : kPackedTypes) {
    for (const RuleOptions& rule : {SgdRule(), AdamRule()}) {  // of Adam, some have missed steps
      const auto table = OpenWithRule(Packed(Dynamic(5), types), rule);
      const std::vector<float> numbers(rule.rule == "adam" ? 2 : 1, 0.1f);
      for (uint64_t step = 1; step <= 4; ++step) {
        ASSERT_TRUE(
            IsOk(Apply(table.get(), numbers, RandomIds(20, 0, 40, step), RandomFloats(100, step))));
      }
      int64_t num_light = 0;
      for (const auto& [key, row] : ExportAll(*table)) {
        num_light += WeightOf(table.get(), key) < 0.8 ? 1 : 0;
      }
      const int64_t num_rows = NumRowsOf(*table);
      EXPECT_GT(num_light, 2);
      EXPECT_LT(num_light, num_rows - 2);
      EXPECT_EQ(Evict(table.get(), WeightBelow(0.8)), num_light) << NameOf(types);
      EXPECT_EQ(NumRowsOf(*table), num_rows - num_light);
    }
  }
}

TEST(EvictRows, GivesManyKeysOfAnyKind) {
  const auto table = OpenWithRule(Aging(Dynamic(1)), SgdRule());
  const std::vector<int64_t> old = RandomIds(100000, -(int64_t{1} << 62), int64_t{1} << 62, 1);
  ASSERT_TRUE(IsOk(Subtract(table.get(), old, Row(old.size(), 1))));
  ASSERT_TRUE(IsOk(Subtract(table.get(), ExtremeKeys(), Row(5, 1))));
  PassSteps(table.get(), {1}, 3);
  const int64_t bytes = StatsOf(*table).bytes;
  ThreadExecutor executor(4);
  EXPECT_EQ(Evict(table.get(), OlderThan(3), &executor), 100000);
  EXPECT_EQ(ExportAll(*table).size(), 5u);
  PassSteps(table.get(), {1}, 1);
  EXPECT_EQ(Evict(table.get(), OlderThan(3), &executor), 5);
  // Their memory is used again.
  ASSERT_TRUE(IsOk(Subtract(table.get(), RandomIds(90000, 0, int64_t{1} << 62, 2), Row(90000, 1))));
  EXPECT_LE(StatsOf(*table).bytes, bytes);
}

TEST(EvictRows, EndsAnExportOnlyIfRowsGo) {
  const auto table = OpenWithRule(Aging(Dynamic(1)), SgdRule());
  ASSERT_TRUE(IsOk(Subtract(table.get(), RandomIds(3000, 0, 1 << 30, 1), Row(3000, 1))));
  ASSERT_TRUE(IsOk(Subtract(table.get(), {-1}, {1})));
  ExportedRows rows;
  ASSERT_TRUE(IsOk(ExportRows(*table, 0, 10, &rows)));
  EXPECT_EQ(Evict(table.get(), OlderThan(1)), 0);
  ASSERT_TRUE(IsOk(ExportRows(*table, rows.next_cursor, 10, &rows)));
  PassSteps(table.get(), {1}, 1);
  ASSERT_TRUE(IsOk(ExportRows(*table, 0, 10, &rows)));
  EXPECT_EQ(Evict(table.get(), OlderThan(1)), 3000);
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "must not change while it is exported",
                        ExportRows(*table, rows.next_cursor, 10, &rows)));
}

TEST(EvictRows, AsksTheFilterAgain) {
  const auto table = OpenFiltered(Aging(Dynamic(1)), SgdRule(), Counter(2));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(IsOk(Subtract(table.get(), {1}, {1})));
  PassSteps(table.get(), {1}, 2);
  // An entry that came for a key with a row goes with the row.
  const int64_t key = 1;
  const uint32_t count = 1;
  ASSERT_TRUE(IsOk(ImportFilter(table.get(), &key, &count, 1)));
  EXPECT_EQ(Evict(table.get(), OlderThan(1)), 1);
  EXPECT_EQ(Lookup(table.get(), {1}), Row({0}));
  EXPECT_EQ(StatsOf(*table).waiting_keys, 0);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1}, {1})));
  EXPECT_EQ(NumRowsOf(*table), 0);
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1}, {1})));
  EXPECT_EQ(NumRowsOf(*table), 1);
}

TEST(EvictRows, IsOfADynamicTableThatKeepsWhatThePolicyNeeds) {
  int64_t num_evicted = -1;
  const auto fixed = Open(Options(10, 1));
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "must be evicted from a dynamic table",
                        TryToEvict(fixed.get(), WeightBelow(9), &num_evicted)));
  const auto ageless = Open(Dynamic(1));
  EXPECT_TRUE(FailsWith(StatusCode::kFailedPrecondition, "must keep the steps of gradients",
                        TryToEvict(ageless.get(), OlderThan(1), &num_evicted)));
  EXPECT_EQ(num_evicted, 0);
  std::unique_ptr<EmbeddingTable> table;
  EXPECT_TRUE(FailsWith(StatusCode::kUnimplemented, "must be a dynamic one",
                        EmbeddingTable::Open(Aging(Options(10, 1)), Inline(), &table)));
}

TEST(Age, TakesNoByteOfATableThatDoesNotKeepIt) {
  const auto plain = OpenWithRule(Dynamic(2), AdamRule());
  ASSERT_TRUE(IsOk(Apply(plain.get(), {0.1f, 0.1f}, {1}, {1, 1})));
  ExportedRows rows;
  ASSERT_TRUE(IsOk(ExportRows(*plain, 0, 10, &rows)));
  EXPECT_TRUE(rows.ages.empty());
  const uint32_t age = 7;
  ASSERT_TRUE(
      IsOk(ImportRows(plain.get(), rows.keys.data(), 1, rows.records.data(), 6, Inline(), &age)));
  for (const bool keeps : {false, true}) {
    const auto rule = UpdateRule::None(3, {keeps, false});
    EXPECT_EQ(rule->layout().record_bytes(), keeps ? 16 : 12);
    EXPECT_EQ(rule->layout().record_floats(), 3);
  }
}

TEST(Age, IsZeroForAnImportedRowThatComesWithoutOne) {
  const auto table = OpenWithRule(Aging(Dynamic(1)), SgdRule());
  ASSERT_TRUE(IsOk(Subtract(table.get(), {1, 2}, {1, 1})));
  PassSteps(table.get(), {1}, 4);
  const std::vector<int64_t> keys = {2, 3};
  ASSERT_TRUE(IsOk(ImportAll(table.get(), keys, {8, 9})));
  EXPECT_EQ(Ages(*table), (AgeOfKey{{1, 4}, {2, 0}, {3, 0}}));
}

TEST(Age, OutlastsANewRuleAndTheEndOfTheStepsThatAWordCounts) {
  const auto table = Open(Aging(Dynamic(2)));
  const std::vector<int64_t> keys = {1, 2, 3};
  const std::vector<uint32_t> ages = {0, 3, UINT32_MAX - 7};
  // No step yet: the words of the older ones are those of steps before 2^32.
  ASSERT_TRUE(
      IsOk(ImportRows(table.get(), keys.data(), 3, Row(6, 1).data(), 2, Inline(), ages.data())));
  EXPECT_EQ(Ages(*table), (AgeOfKey{{1, 0}, {2, 3}, {3, UINT32_MAX - 7}}));
  for (const RuleOptions& rule : {SgdRule(), AdamRule(), AdagradRule(0.1), AdamRule("lazy_adam")}) {
    ASSERT_TRUE(IsOk(SetRule(table.get(), rule, Inline())));
    PassSteps(table.get(), rule.rule == "sgd" || rule.rule == "adagrad" ? Row{1} : Row{1, 1}, 1);
  }
  EXPECT_EQ(Ages(*table), (AgeOfKey{{1, 4}, {2, 7}, {3, UINT32_MAX - 3}}));
  EXPECT_EQ(Evict(table.get(), OlderThan(6)), 2);
  EXPECT_EQ(Ages(*table), (AgeOfKey{{1, 4}}));
}

TEST(Age, ComesBackWithTheRow) {
  for (const RuleOptions& rule : {SgdRule(), AdagradRule(0.1)}) {
    const auto stopped = OpenWithRule(Aging(Dynamic(2)), rule);
    const auto step = [](EmbeddingTable* table, uint64_t seed) {
      ASSERT_TRUE(IsOk(Apply(table, {0.1f}, RandomIds(50, 0, 300, seed), RandomFloats(100, seed))));
    };
    for (uint64_t seed = 1; seed <= 9; ++seed) step(stopped.get(), seed);
    const auto loaded = OpenWithRule(Aging(Dynamic(2)), rule);
    ExportedRows rows;
    for (int64_t cursor = 0; cursor >= 0; cursor = rows.next_cursor) {
      ASSERT_TRUE(IsOk(ExportRows(*stopped, cursor, 7, &rows)));
      ASSERT_TRUE(
          IsOk(ImportRows(loaded.get(), rows.keys.data(), static_cast<int64_t>(rows.keys.size()),
                          rows.records.data(), rows.record_floats, Inline(), rows.ages.data())));
    }
    EXPECT_EQ(Ages(*loaded), Ages(*stopped));
    for (uint64_t seed = 10; seed <= 20; ++seed) {
      step(stopped.get(), seed);
      step(loaded.get(), seed);
      const int64_t num_evicted = Evict(stopped.get(), OlderThan(5));
      EXPECT_EQ(Evict(loaded.get(), OlderThan(5)), num_evicted);
      EXPECT_EQ(ExportAll(*loaded), ExportAll(*stopped));
    }
    EXPECT_GT(StatsOf(*loaded).evicted_rows, 100);
  }
}

}  // namespace keras_sparse::evict_rows_test
