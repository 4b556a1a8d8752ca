// StatsOf, TierStatsOf: the contents and counters of a table.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_READ_STATS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_READ_STATS_H_

#include <cstdint>
#include <vector>

#include "ops/core/table/embedding_table.h"
#include "ops/core/table/table_stats.h"

namespace keras_sparse {

int64_t NumRowsOf(const EmbeddingTable& table);
// Returns the width of an exported record: row and slots.
int64_t RecordFloatsOf(const EmbeddingTable& table);

// Both wait until the lower tiers have received all queued writes.
TableStats StatsOf(const EmbeddingTable& table);
// Returns the first tier, then the lower ones.
std::vector<TierStats> TierStatsOf(const EmbeddingTable& table);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_READ_STATS_H_
