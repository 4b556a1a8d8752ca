// TableState: all of a table that its lock guards.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATE_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/eviction/eviction_policy.h"
#include "ops/core/optimizer/update_rule.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/table/admission_gate.h"
#include "ops/core/table/eviction_queue.h"
#include "ops/core/table/rule_state.h"
#include "ops/core/table/table_options.h"
#include "ops/core/table/table_stats.h"
#include "ops/core/table/tier_stack.h"

namespace keras_sparse {

// What was found for an update before it is made, where ranks first agree on it: the update asks
// for the same keys again.
struct FoundRoom {
  int64_t version = -1;  // of the table
  std::vector<int64_t> keys = {};
  EvictionCandidates leaving = {};
};

// How many rows the updates of a table may come to.
struct RowLimit {
  int64_t max_rows = INT64_MAX;            // in all tiers
  std::unique_ptr<EvictionPolicy> policy;  // which rows go before; null if none do
  EvictionQueue queue = EvictionQueue();   // of a policy that makes room
  FoundRoom found = {};
};

// Who has it as const holds the lock of its table, perhaps with others; who may change it holds the
// lock alone. ReadLocks and WriteLocks give it so.
struct TableState {
  // `table_options` must outlive it.
  explicit TableState(const TableOptions& table_options)
      : options(table_options), tiers(table_options), rule_state(table_options) {}

  // Makes what the options ask for. To be called once, before all else.
  Status Open(Executor* executor);

  const UpdateRule& rule() const { return rule_state.rule(); }
  const RecordLayout& layout() const { return rule_state.layout(); }
  // The finest cut of an update into parts.
  int max_partition_bits() const {
    return gate.max_partition_bits(tiers.first_tier().max_partition_bits());
  }

  // InvalidArgument for a key outside a static table.
  Status CheckKeys(const int64_t* keys, int64_t n) const;
  // InvalidArgument unless these can be records of the table; see ImportRows.
  //   records  (n, width)
  Status CheckRecords(const float* records, int64_t n, int64_t width) const;
  // Where a walk begins: at the first tier, or in a GPU's memory, above which nothing stays.
  int64_t FirstCursor() const;
  // FailedPrecondition if the table has changed since the walk of this cursor began.
  Status CheckCursor(int64_t cursor) const;

  // Before and after rows are changed. What has been changed stays, so a lower tier that fails
  // afterwards, because it is full perhaps, fails the next change, before that has begun.
  Status BeginChange(Executor* executor);
  void FinishChange(Executor* executor);

  // Counts a change in which rows have gone, have moved between tiers, or are updated by gradients.
  void CountChange() { CountChangeSince(version); }
  // The same for all changes since an earlier version, as one.
  void CountChangeSince(int64_t earlier) {
    limit.queue.Follow(version, earlier + 1);
    version = earlier + 1;
  }

  // Of what a save has of the table: both only grow, so that the sum stays only where both do.
  int64_t snapshot_version() const { return version + num_saves; }

  const TableOptions& options;
  TierStack tiers;
  RuleState rule_state;
  AdmissionGate gate;
  RowLimit limit;
  mutable TableCounters counters;  // atomic: changed by readers, too
  int64_t version = 0;             // counts what may have changed a row
  int64_t num_saves = 0;           // that TableSnapshot::MarkSaved has been told of
  bool is_unfinished = false;      // the last change left something to do
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATE_H_
