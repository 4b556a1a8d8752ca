// TableState: all of a table that its lock guards.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATE_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "ops/core/admission/admission_filter.h"
#include "ops/core/eviction/eviction_policy.h"
#include "ops/core/optimizer/update_rule.h"
#include "ops/core/record/initializer.h"
#include "ops/core/table/table_options.h"
#include "ops/core/table/tier_stack.h"

namespace keras_sparse {

struct TableState {
  explicit TableState(const TableOptions& options) : tiers(options) {}

  TierStack tiers;
  std::unique_ptr<Initializer> initializer;
  // What a key without a row reads as; null for its initial row.
  std::unique_ptr<Initializer> default_rows;

  std::unique_ptr<UpdateRule> rule;
  int64_t rule_generation = 0;
  std::unique_ptr<AdmissionFilter> filter;  // null if every key may have a row
  int64_t max_rows = INT64_MAX;
  std::unique_ptr<EvictionPolicy> limit_policy;  // null if the limit lets no row go
  int64_t num_saves = 0;                         // that TableSnapshot::MarkSaved has been told of
  bool is_restoring = false;                     // records that come may be as old as the history
  bool is_unfinished = false;                    // the last change left something to do
  int64_t version = 0;
  uint32_t num_steps = 0;  // updates so far, whatever the rule; wraps

  mutable std::atomic<int64_t> lookups{0};
  mutable std::atomic<int64_t> hits{0};
  mutable std::atomic<int64_t> lower_hits{0};  // of these, in lower tiers
  mutable std::atomic<int64_t> out_of_range_ids{0};
  std::atomic<int64_t> created_rows{0};
  std::atomic<int64_t> filtered_ids{0};
  std::atomic<int64_t> evicted_rows{0};
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATE_H_
