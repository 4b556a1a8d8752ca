// Lookups in tables in a GPU's memory.
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

// What a lookup reads of a table: the rows of its ids.
struct IdRows {
  HbmTable table;
  const int64_t* ids;     // (num_ids)
  const uint32_t* found;  // (num_ids) the row of each id, as FindRows gives it
  // (num_ids, dim) each row as it reads now, where that is not as it stands; else null. See
  // ReadMovedRows.
  const float* moved;
  // Where some that are not in the GPU's memory are in tiers below it; else null:
  // (num_ids) which of the cold rows an id has, kNoHbmRow for none,
  const uint32_t* cold_found = nullptr;
  // and (number of them, dim) these as they read now.
  const float* cold_rows = nullptr;

  KERAS_SPARSE_HOST_DEVICE int64_t dim() const { return table.dim; }
  KERAS_SPARSE_HOST_DEVICE unsigned long long* refused_bag() const {
    return &table.checks->refused_bag;
  }
};

using PoolRequest = PooledRows<IdRows>;

// Gives the device the work that LookupRows is, with its bits: the sum of a bag adds its rows in
// their order. Bags that it refuses stand in the tables' checks once the work is done; rows are
// undefined then, and nothing outside of them is written.
Status PoolRows(const std::vector<PoolRequest>& requests, Device* device);

struct WeightsRequest {
  IdRows read;
  Bags bags;                  // with weights
  GradientRows output_grads;  // (bags.num_bags, dim)
  float* weight_grads;        // (bags.num_ids)
};

// The same for LookupWeightsGradient. Ids and bags are those of a lookup, which has checked them.
Status WeightsGradient(const std::vector<WeightsRequest>& requests, Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_POOL_ROWS_H_
