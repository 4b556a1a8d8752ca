// SplitIdColumns: the ids of each feature of a batch that comes as one matrix.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_ID_COLUMNS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_ID_COLUMNS_H_

#include <cstdint>

#include "ops/core/base/executor.h"

namespace keras_sparse {

// Returns the number of elements from one column to the next in the result of SplitIdColumns. Each
// column starts at a cache line, and columns do not compete for the same cache sets.
int64_t IdColumnStride(int64_t num_rows);

// Writes each column of a matrix of ids to contiguous memory, as int64. Reads and writes tiles of
// whole cache lines; columns that exceed the second-level cache are written past the caches.
//   matrix   (num_rows, num_columns), row-major; Id is int32_t or int64_t
//   columns  (num_columns, IdColumnStride(num_rows)), at a cache line; the elements from num_rows
//            on are left as they are
template <typename Id>
void SplitIdColumns(const Id* matrix, int64_t num_rows, int64_t num_columns, int64_t* columns,
                    Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_ID_COLUMNS_H_
