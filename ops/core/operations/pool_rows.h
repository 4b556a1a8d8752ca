// Lookups in tables in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_POOL_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_POOL_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/ids/bags.h"
#include "ops/core/ids/id_checks.h"
#include "ops/core/math/strided_rows.h"
#include "ops/core/record/records_view.h"

namespace keras_sparse::cuda_impl {

// A static table, where the row of an id has its number. All memory is the GPU's.
struct PoolTable {
  RecordsView records;
  int64_t dim;
  bool outside_is_zero;  // an id outside reads as zeros and is counted, instead of refused
  IdChecks* checks;
};

struct PoolRequest {
  PoolTable table;
  const int64_t* ids;  // (bags.num_ids)
  Bags bags;
  OutputRows rows;  // (bags.num_bags, dim)
};

// Gives the device the work that LookupRows is, with its bits: the sum of a bag adds its rows in
// their order. What it refuses stands in the tables' checks once the work is done; rows are
// undefined then, and nothing outside of them is written.
Status PoolRows(const std::vector<PoolRequest>& requests, Device* device);

struct WeightsRequest {
  PoolTable table;
  const int64_t* ids;         // (bags.num_ids)
  Bags bags;                  // with weights
  GradientRows output_grads;  // (bags.num_bags, dim)
  float* weight_grads;        // (bags.num_ids)
};

// The same for LookupWeightsGradient. Ids and bags are those of a lookup, which has checked them.
Status WeightsGradient(const std::vector<WeightsRequest>& requests, Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_POOL_ROWS_H_
