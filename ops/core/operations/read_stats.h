// What is in a table, and what it has done.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_READ_STATS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_READ_STATS_H_

#include <cstdint>
#include <vector>

#include "ops/core/table/embedding_table.h"
#include "ops/core/table/table_stats.h"

namespace keras_sparse {

int64_t NumRowsOf(const EmbeddingTable& table);
// Width of an exported record: row and slots.
int64_t RecordFloatsOf(const EmbeddingTable& table);

// These wait until what is on its way to lower tiers is there.
TableStats StatsOf(const EmbeddingTable& table);
// The first tier, then the lower ones.
std::vector<TierStats> TierStatsOf(const EmbeddingTable& table);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_READ_STATS_H_
