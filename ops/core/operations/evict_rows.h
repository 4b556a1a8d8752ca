// EvictRows and EraseRows: rows that leave all tiers. CompactTiers: their bytes, too.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_EVICT_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_EVICT_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/eviction/eviction_policy.h"
#include "ops/core/table/embedding_table.h"
#include "ops/core/table/exported_rows.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {

// Drops the rows, in all tiers, that the policy lets go, and counts them; `rows`, if not null, gets
// them as ExportRows would have given them, in one piece. Their keys are then as if they had never
// had a row: a filter is asked again. A lower tier that is full does not stop it, and has room
// afterwards.
// Unimplemented for a static table, FailedPrecondition if the policy needs ages that the table does
// not keep. If a lower tier cannot be read, all rows stay; if it cannot erase, those of the first
// tier do, and of the others some may have gone uncounted, each as a whole.
Status EvictRows(EmbeddingTable* table, const EvictionPolicy& policy, Executor* executor,
                 int64_t* num_evicted, ExportedRows* rows = nullptr);

// Does so with rows that FindEvictionCandidates has found, since when the table has not changed.
Status EvictCandidates(const EvictionCandidates& candidates, TableState* state, Executor* executor);

// Drops the rows of these keys from all tiers, and what the filter has of keys that wait. Keys may
// be repeated, or have no row. After an error rows of the first tier are still there, and of the
// others some may have gone. Unimplemented for a static table.
Status EraseRows(EmbeddingTable* table, const int64_t* keys, int64_t n, Executor* executor);

// Leaves no byte of a row that has gone by now, from all tiers or up from a lower one, in a file of
// the table's lower tiers: see RowStore::Compact. A table without such has nothing to do. Changes
// wait for it, lookups do not. After an error, the first of its stores', no row has changed.
Status CompactTiers(const EmbeddingTable& table);

// Unimplemented for a static table.
Status CheckErasable(const TableOptions& options);

// Does what EraseRows does, to a table that is dynamic.
Status EraseFrom(const std::vector<int64_t>& keys, TableState* state, Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_EVICT_ROWS_H_
