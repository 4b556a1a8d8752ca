// PooledRows: bags of rows in a GPU's memory, and their outputs.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_POOLED_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_POOLED_ROWS_H_

#include "ops/core/ids/bags.h"
#include "ops/core/math/strided_rows.h"

namespace keras_sparse::cuda_impl {

// A request of a kernel of pool_kernel.h.
//   Read  the input of readers of rows:
//     found          (bags.num_ids) the number of each id's row
//     dim()          columns of a row
//     refused_bag()  in the GPU's memory: receives the first bag with unsound splits. Null for bags
//                    that have been checked
template <typename Read>
struct PooledRows {
  Read read;
  Bags bags;
  OutputRows rows;  // (bags.num_bags, dim)
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_IDS_POOLED_ROWS_H_
