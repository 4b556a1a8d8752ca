// SetRowLimit, CheckRoom: the limit on a table's rows. CheckUpdate: whether an update would fail.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_ROOM_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_ROOM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/eviction/eviction_policy.h"
#include "ops/core/operations/lookup.h"
#include "ops/core/table/embedding_table.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {

// Limits the rows of a dynamic table, counted over all tiers, that updates may create. An update
// that exceeds the limit fails before it creates or changes any row. With a policy, the update
// first evicts rows, but none of its own. Existing and imported rows stay.
//   policy  may be null
// Returns Unimplemented for a static table. Returns FailedPrecondition if the policy needs ages
// that the table does not keep.
Status SetRowLimit(EmbeddingTable* table, int64_t max_rows, std::unique_ptr<EvictionPolicy> policy);

// Returns ResourceExhausted if an update with these ids would exceed the limit of a table. Changes
// nothing.
// REQUIRES: the tables are in one memory, as for CheckUpdates
Status CheckRooms(const std::vector<StepIds>& tables, Executor* executor);

// Checks one op of a step with several ops, so that no op changes a table if another op fails.
// Returns the errors that ApplyGradients would return for these ids before it changes anything: an
// id outside the table, no room within the row limit or the size of the first tier, or rows that an
// earlier change could not demote. For a table in a GPU's memory, this reserves room for the new
// rows, which the table keeps. It waits for nothing if all rows are those that lookups have found.
// Rows are unchanged.
Status CheckUpdates(const std::vector<StepIds>& tables, Executor* executor);

// As both, for one table, with ids in host memory.
Status CheckRoom(EmbeddingTable* table, const int64_t* ids, int64_t n, Executor* executor);
Status CheckUpdate(EmbeddingTable* table, const int64_t* ids, int64_t n, Executor* executor);

// Returns how many of the rows to evict are in the memory of the table's GPU, where they free room.
int64_t NumLeavingGpu(const TableState& state, const EvictionCandidates& leaving);

// Selects the rows to evict so that the table stays within its limit after an update has created
// rows for these keys. Returns ResourceExhausted if there are too few. Changes nothing but the
// eviction queue.
Status FindRoom(TableState* state, const int64_t* keys, int64_t n, Executor* executor,
                EvictionCandidates* leaving);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_ROOM_H_
