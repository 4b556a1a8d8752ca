// FindEvictionCandidates: selects the rows that a policy evicts, before they are evicted.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_CANDIDATES_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_CANDIDATES_H_

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/eviction/eviction_policy.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/table/eviction_queue.h"
#include "ops/core/table/exported_rows.h"
#include "ops/core/table/table_options.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {

// Returns Unimplemented for a static table. Returns FailedPrecondition if the policy needs ages
// that the table does not keep, or keeps in another unit.
Status CheckEviction(const TableOptions& options, const EvictionPolicy& policy);

// Finds the rows that a policy evicts. A policy that makes room evicts the rows beyond the table's
// limit. Changes nothing.
//   kept  keys whose rows stay; empty for a policy that makes room
//   rows  if not null: these rows are also appended here
// REQUIRES: CheckEviction returned OK
Status FindEvictionCandidates(const TableState& state, const EvictionPolicy& policy,
                              const HashIndex& kept, Executor* executor,
                              EvictionCandidates* candidates, ExportedRows* rows = nullptr);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_CANDIDATES_H_
