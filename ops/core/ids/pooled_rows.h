// Bags of rows in a GPU's memory, and where they go.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_POOLED_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_POOLED_ROWS_H_

#include "ops/core/ids/bags.h"
#include "ops/core/math/strided_rows.h"

namespace keras_sparse::cuda_impl {

// What a kernel of pool_kernel.h does.
//   Read  what readers of rows are made of:
//     found          (bags.num_ids) a number of the row of each id
//     dim()          columns of a row
//     refused_bag()  in the GPU's memory: gets the first bag whose splits are unsound. Null for
//                    bags that have been checked
template <typename Read>
struct PooledRows {
  Read read;
  Bags bags;
  OutputRows rows;  // (bags.num_bags, dim)
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_IDS_POOLED_ROWS_H_
