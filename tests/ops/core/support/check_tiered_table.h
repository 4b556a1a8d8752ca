// What every stack of tiers keeps to: a table over it is the table in memory alone, bit for bit.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_TIERED_TABLE_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_TIERED_TABLE_H_

#include "ops/core/operations/clear_rows.h"
#include "tests/ops/core/support/eviction_testing.h"
#include "tests/ops/core/support/temp_folder.h"
#include "tests/ops/core/support/thread_executor.h"

namespace keras_sparse {

inline std::vector<float> NumbersOf(const RuleOptions& rule, int64_t step) {
  const float rate = 0.1f / static_cast<float>(step);
  return rule.rule == "adam" ? std::vector<float>{rate, rate} : std::vector<float>{rate};
}

//   storage  without a path
//   numbers  what a step of the rule is given
//   types    of the records
inline void CheckTieredTable(const StorageOptions& storage, const RuleOptions& rule,
                             int64_t num_steps,
                             const std::function<std::vector<float>(int64_t step)>& numbers,
                             const RecordTypes& types = {}) {
  const TempFolder folder;
  TableOptions options = Packed(Dynamic(7), types);
  const auto plain = OpenWithRule(options, rule);
  options.storage = storage;
  options.storage.path = folder / "rows";
  const auto tiered = OpenWithRule(options, rule);
  ThreadExecutor executor(3);
  for (int64_t step = 1; step <= num_steps; ++step) {
    const auto seed = static_cast<uint64_t>(step);
    const std::vector<int64_t> ids = RandomIds(400, -1500, 1500 + 100 * step, seed);
    const std::vector<float> grads = RandomFloats(400 * 7, seed);
    if (step % 3 != 0) {
      ASSERT_EQ(Bits(Lookup(tiered.get(), ids, &executor)), Bits(Lookup(plain.get(), ids)));
    }
    ASSERT_TRUE(
        IsOk(ApplyToEach({tiered.get(), plain.get()}, numbers(step), ids, grads, &executor)));
    const std::vector<int64_t> read = RandomIds(300, -2000, 8000, seed + 1);
    ASSERT_EQ(Bits(Lookup(tiered.get(), read, &executor)), Bits(Lookup(plain.get(), read)));
    if (step % 20 == 0) {
      ASSERT_TRUE(IsOk(
          ImportToEach({tiered.get(), plain.get()}, read, RandomFloats(300 * 7, seed), &executor)));
    }
    if (step % 15 == 0) {
      const int64_t num_evicted = Evict(plain.get(), WeightBelow(0.5));
      ASSERT_GT(num_evicted, 0);
      ASSERT_EQ(Evict(tiered.get(), WeightBelow(0.5), &executor), num_evicted);
    }
    ASSERT_EQ(NumRowsOf(*tiered), NumRowsOf(*plain));
    ASSERT_EQ(StatsOf(*tiered).created_rows, StatsOf(*plain).created_rows);
    ASSERT_EQ(StatsOf(*tiered).hits, StatsOf(*plain).hits);
  }
  EXPECT_EQ(ExportAll(*tiered), ExportAll(*plain));
  // Another optimizer: rows stay, in all tiers.
  for (EmbeddingTable* table : {tiered.get(), plain.get()}) {
    ASSERT_TRUE(IsOk(SetRule(table, AdamRule("lazy_adam"), &executor)));
  }
  EXPECT_EQ(ExportAll(*tiered), ExportAll(*plain));
  ASSERT_TRUE(IsOk(ClearRows(tiered.get(), &executor)));
  EXPECT_EQ(NumRowsOf(*tiered), 0);
}

inline void CheckTieredTable(const StorageOptions& storage, const RuleOptions& rule,
                             int64_t num_steps = 40, const RecordTypes& types = {}) {
  CheckTieredTable(
      storage, rule, num_steps, [&rule](int64_t step) { return NumbersOf(rule, step); }, types);
}

// Trains on new rows until the last tier of a table is full for good, and returns that error. A
// step is made whole or not at all, with slots, step and all: the table stays as `plain`, in
// memory.
inline Status CheckFullLastTier(EmbeddingTable* table, EmbeddingTable* plain) {
  Status status;
  for (int64_t step = 0; step < 20; ++step) {
    const std::vector<int64_t> ids = RandomIds(1000, 0, 1 << 30, static_cast<uint64_t>(step));
    const std::vector<float> grads = RandomFloats(1000 * table->dim(), static_cast<uint64_t>(step));
    const Status applied = Apply(table, {0.1f}, ids, grads);
    if (applied.ok()) {
      EXPECT_TRUE(IsOk(status)) << "the tier is full for good";
      EXPECT_TRUE(IsOk(Apply(plain, {0.1f}, ids, grads)));
    } else {
      status = applied;
    }
    EXPECT_EQ(ExportAll(*table), ExportAll(*plain)) << "step " << step;
    EXPECT_EQ(NumRowsOf(*table), NumRowsOf(*plain));
  }
  return status;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_CHECK_TIERED_TABLE_H_
