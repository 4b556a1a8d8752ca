// EvictRows, EraseRows: remove rows from all tiers. CompactTiers: removes their bytes too.
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

// Drops the rows that the policy evicts from all tiers, and counts them. If `rows` is not null,
// returns them there as ExportRows would, in one chunk. Afterwards the keys are as if they had
// never had a row: the filter must admit them again. A full lower tier does not prevent eviction,
// and has room afterwards. Returns Unimplemented for a static table. Returns FailedPrecondition if
// the policy needs ages that the table does not keep. If a lower tier cannot be read, all rows
// stay. If it cannot erase, rows of the first tier stay; other rows may be gone, each as a whole,
// without being counted.
Status EvictRows(EmbeddingTable* table, const EvictionPolicy& policy, Executor* executor,
                 int64_t* num_evicted, ExportedRows* rows = nullptr);

// Drops the rows found by FindEvictionCandidates.
// REQUIRES: the table has not changed since
Status EvictCandidates(const EvictionCandidates& candidates, TableState* state, Executor* executor);

// Drops the rows of these keys from all tiers, and the filter's entries of waiting keys. Keys may
// repeat, or have no row. After an error, rows of the first tier are still there; other rows may be
// gone. Returns Unimplemented for a static table.
Status EraseRows(EmbeddingTable* table, const int64_t* keys, int64_t n, Executor* executor);

// Removes every byte of rows that have left a lower tier (by an erase or a promotion) from the
// files of the table's lower tiers; see RowStore::Compact. Does nothing for a table without lower
// tiers. Changes wait for it; lookups do not. Returns the error of the first store that fails; no
// row has changed then.
Status CompactTiers(const EmbeddingTable& table);

// Returns Unimplemented for a static table.
Status CheckErasable(const TableOptions& options);

// As EraseRows, for a table known to be dynamic.
Status EraseFrom(const std::vector<int64_t>& keys, TableState* state, Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_EVICT_ROWS_H_
