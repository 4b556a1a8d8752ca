// PoolRows: lookups in tables in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_POOL_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_POOL_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/host_device.h"
#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/ids/bags.h"
#include "ops/core/ids/pooled_rows.h"
#include "ops/core/math/strided_rows.h"
#include "ops/core/operations/find_rows.h"

namespace keras_sparse::cuda_impl {

// The rows of a lookup's ids in one table.
struct IdRows {
  HbmTable table;
  const int64_t* ids;     // (num_ids)
  const uint32_t* found;  // (num_ids) the row of each id, as FindRows returns it
  // (num_ids, dim) of the table's row type: the current values of rows with missed steps; null if
  // there are none. See ReadMovedRows.
  const void* moved;
  // Set if some rows are in tiers below the GPU's memory, else null:
  //   (num_ids) the number of each id's cold row, kNoHbmRow for none,
  const uint32_t* cold_found = nullptr;
  // and (number of cold rows, dim) their current values, of the table's row type.
  const void* cold_rows = nullptr;

  KERAS_SPARSE_HOST_DEVICE int64_t dim() const { return table.dim; }
  KERAS_SPARSE_HOST_DEVICE unsigned long long* refused_bag() const {
    return &table.checks->refused_bag;
  }
};

using PoolRequest = PooledRows<IdRows>;

// Enqueues the work of LookupRows on the device, with the same bits: a bag adds its rows in order.
// When the work is done, the tables' checks hold rejected bags; rows are undefined then, and
// nothing outside of them is written.
Status PoolRows(const std::vector<PoolRequest>& requests, Device* device);

struct WeightsRequest {
  IdRows read;
  Bags bags;                  // with weights
  GradientRows output_grads;  // (bags.num_bags, dim)
  float* weight_grads;        // (bags.num_ids)
};

// As PoolRows, for LookupWeightsGradient. Ids and bags are those of a lookup that has checked them.
Status WeightsGradient(const std::vector<WeightsRequest>& requests, Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_POOL_ROWS_H_
