// TableState: everything that a table's lock guards.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATE_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/eviction/eviction_policy.h"
#include "ops/core/optimizer/update_rule.h"
#include "ops/core/record/packed_record.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/table/admission_gate.h"
#include "ops/core/table/eviction_queue.h"
#include "ops/core/table/rule_state.h"
#include "ops/core/table/table_options.h"
#include "ops/core/table/table_stats.h"
#include "ops/core/table/tier_stack.h"

namespace keras_sparse {

// Rows that an update will evict, found before ranks agree on the update. The update then asks for
// the same keys again.
struct FoundRoom {
  int64_t version = -1;  // of the table
  std::vector<int64_t> keys = {};
  EvictionCandidates leaving = {};
};

// The limit on a table's rows.
struct RowLimit {
  int64_t max_rows = INT64_MAX;            // in all tiers
  std::unique_ptr<EvictionPolicy> policy;  // evicts rows beyond the limit; null: no row is evicted
  EvictionQueue queue = EvictionQueue();   // for a policy that makes room
  FoundRoom found = {};
};

// A const reference implies the shared lock; a mutable one, the exclusive lock. ReadLocks and
// WriteLocks return these references.
struct TableState {
  // `table_options` must outlive the state.
  explicit TableState(const TableOptions& table_options)
      : options(table_options), tiers(table_options), rule_state(table_options) {}

  // Opens the tiers of the options. Must be called once, before any other method.
  Status Open(Executor* executor);

  const UpdateRule& rule() const { return rule_state.rule(); }
  const RecordLayout& layout() const { return rule_state.layout(); }
  // Returns how a change that begins now rounds the records that it stores.
  Rounding rounding() const {
    return {options.rounds_randomly && layout().is_packed(), static_cast<uint64_t>(rule().step()),
            gate.initializer().rows().part};
  }
  // Returns the finest partition of an update, in bits.
  int max_partition_bits() const {
    return gate.max_partition_bits(tiers.first_tier().max_partition_bits());
  }

  // Returns InvalidArgument for a key outside a static table.
  Status CheckKeys(const int64_t* keys, int64_t n) const;
  // Returns InvalidArgument unless these can be records of the table; see ImportRows.
  //   records  (n, width)
  Status CheckRecords(const float* records, int64_t n, int64_t width) const;
  // Returns the cursor that starts a walk: in the first tier, or in a GPU's memory, because the
  // staging tier above it is empty between changes.
  int64_t FirstCursor() const;
  // Returns FailedPrecondition if the table has changed since the walk of this cursor began.
  Status CheckCursor(int64_t cursor) const;

  // Called before and after a change of rows. A finished change stays. If a lower tier fails
  // afterwards, for example because the disk is full, the next BeginChange returns its error.
  Status BeginChange(Executor* executor);
  void FinishChange(Executor* executor);

  // Counts a change that erased rows, moved rows between tiers, or updated rows by gradients.
  void CountChange() { CountChangeSince(version); }
  // Counts all changes since version `earlier` as one.
  void CountChangeSince(int64_t earlier) {
    limit.queue.Follow(version, earlier + 1);
    version = earlier + 1;
  }

  // Returns a version of the state that a save includes. Both terms only grow, so the sum is
  // unchanged only if both are.
  int64_t snapshot_version() const { return version + num_saves; }

  const TableOptions& options;
  TierStack tiers;
  RuleState rule_state;
  AdmissionGate gate;
  RowLimit limit;
  mutable TableCounters counters;  // atomic, because readers count too
  int64_t version = 0;             // counts changes that may affect a row
  int64_t num_saves = 0;           // saves counted by TableSnapshot::MarkSaved
  bool is_unfinished = false;      // the last change left work to finish
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_TABLE_STATE_H_
