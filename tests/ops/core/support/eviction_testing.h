// Policies in one line, and tables that they empty.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_EVICTION_TESTING_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_EVICTION_TESTING_H_

#include <atomic>

#include "ops/core/eviction/eviction_policy.h"
#include "ops/core/operations/evict_rows.h"
#include "tests/ops/core/support/table_testing.h"

namespace keras_sparse {

inline EvictionOptions OlderThan(double steps_to_live) {
  return {"global_step", {{"steps_to_live", steps_to_live}}};
}
inline EvictionOptions WeightBelow(double threshold) {
  return {"l2_weight", {{"l2_weight_threshold", threshold}}};
}
inline EvictionOptions Lru() { return {"lru", {}}; }
inline EvictionOptions Lfu() { return {"lfu", {}}; }
inline EvictionOptions OlderThanSeconds(double seconds) {
  return {"time_to_live", {{"seconds", seconds}}};
}

inline std::unique_ptr<EvictionPolicy> MakePolicy(const EvictionOptions& options) {
  std::unique_ptr<EvictionPolicy> policy;
  EXPECT_TRUE(IsOk(EvictionPolicy::Create(options, &policy)));
  return policy;
}

inline Status TryToEvict(EmbeddingTable* table, const EvictionOptions& options,
                         int64_t* num_evicted, Executor* executor = Inline()) {
  return EvictRows(table, *MakePolicy(options), executor, num_evicted);
}

// How many rows went.
inline int64_t Evict(EmbeddingTable* table, const EvictionOptions& options,
                     Executor* executor = Inline()) {
  int64_t num_evicted = -1;
  EXPECT_TRUE(IsOk(TryToEvict(table, options, &num_evicted, executor)));
  return num_evicted;
}

inline TableOptions Aging(TableOptions options) {
  options.keeps.gradient_step = true;
  return options;
}

inline TableOptions Counting(TableOptions options) {
  options.keeps.frequency = true;
  return options;
}

// The frequency of each row of a table.
inline std::map<int64_t, uint32_t> Frequencies(const EmbeddingTable& table) {
  std::map<int64_t, uint32_t> frequencies;
  ForEachRow(table, 1000, [&](size_t i, const ExportedRows& piece) {
    ASSERT_EQ(piece.frequencies.size(), piece.keys.size());
    frequencies[piece.keys[i]] = piece.frequencies[i];
  });
  return frequencies;
}

// What tables with ages in seconds take for the time; a test sets it before it opens one.
inline std::atomic<uint32_t> seconds_of_test{0};

inline TableOptions AgingInSeconds(TableOptions options) {
  options.keeps.gradient_step = true;
  options.ages_in_seconds = true;
  options.clock = [] { return seconds_of_test.load(); };
  return options;
}

// The age of each row of a table.
inline std::map<int64_t, uint32_t> Ages(const EmbeddingTable& table, int64_t max_rows = 1000) {
  std::map<int64_t, uint32_t> ages;
  ForEachRow(table, max_rows, [&](size_t i, const ExportedRows& piece) {
    ASSERT_EQ(piece.ages.size(), piece.keys.size());
    ages[piece.keys[i]] = piece.ages[i];
  });
  return ages;
}

// Half the squared length of a row, in float64.
inline double WeightOf(EmbeddingTable* table, int64_t key) {
  double sum = 0;
  for (const float value : Lookup(table, {key})) sum += static_cast<double>(value) * value;
  return 0.5 * sum;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_EVICTION_TESTING_H_
