// SetRowLimit, CheckRoom: how many rows the updates of a table may come to. CheckUpdate: whether it
// would refuse one.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_ROOM_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_ROOM_H_

#include <cstdint>
#include <memory>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/eviction/eviction_policy.h"
#include "ops/core/table/embedding_table.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {

// Limits the rows of a dynamic table, in all tiers, that updates make: one that would make more is
// refused before it makes or changes any. Before that rows go by the policy, if there is one, but
// none of those that the update is for. Rows that there are, or that are imported, stay.
//   policy  may be null
// Unimplemented for a static table, FailedPrecondition if the policy needs ages that the table does
// not keep.
Status SetRowLimit(EmbeddingTable* table, int64_t max_rows, std::unique_ptr<EvictionPolicy> policy);

// Whether an update with these ids would stay within the limit: ResourceExhausted if it would not.
// Changes nothing.
Status CheckRoom(EmbeddingTable* table, const int64_t* ids, int64_t n, Executor* executor);
// The same of a table whose lock the caller has.
//   num_leaving  how many rows would go first
Status CheckRoom(TableState* state, const int64_t* ids, int64_t n, Executor* executor,
                 int64_t* num_leaving);

// For a step of several ops, none of which is to change a table that another one of them refuses:
// the errors that ApplyGradients has for these ids before it changes anything. An id outside of the
// table, no room within the limit of rows or the size of the first tier, rows that an earlier
// change has found no room for below. Where the table is in a GPU's memory, the room for its new
// rows is taken, and stays the table's. Rows stay as they are.
//   ids  (n) in the CPU's memory, repeats allowed
Status CheckUpdate(EmbeddingTable* table, const int64_t* ids, int64_t n, Executor* executor);

// How many of the rows that leave a table are in the memory of its GPU, and free room there.
int64_t NumLeavingGpu(const TableState& state, const EvictionCandidates& leaving);

// Finds the rows that have to go for the table to stay within its limit when an update has made
// those that these keys lack. ResourceExhausted if it cannot. Changes nothing but what the table
// knows of the rows that go first.
Status FindRoom(TableState* state, const int64_t* keys, int64_t n, Executor* executor,
                EvictionCandidates* leaving);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_ROOM_H_
