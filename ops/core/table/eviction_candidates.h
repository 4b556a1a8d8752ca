// FindEvictionCandidates: the rows that a policy lets go, before they do.
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

// Unimplemented for a static table, FailedPrecondition if the policy needs ages that the table does
// not keep, or keeps in another unit.
Status CheckEviction(const TableOptions& options, const EvictionPolicy& policy);

// Finds the rows that a policy lets go; of one that makes room, those that the table has beyond its
// limit. Changes nothing.
//   kept  keys whose rows stay; none for a policy that makes room
//   rows  if not null: gets these rows, too
// REQUIRES: CheckEviction
Status FindEvictionCandidates(const TableState& state, const EvictionPolicy& policy,
                              const HashIndex& kept, Executor* executor,
                              EvictionCandidates* candidates, ExportedRows* rows = nullptr);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_CANDIDATES_H_
