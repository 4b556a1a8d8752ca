// Where the rows of ids are, in tables in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_FIND_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_FIND_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/ids/id_checks.h"
#include "ops/core/ids/owned_keys.h"
#include "ops/core/index/hbm_index.h"
#include "ops/core/record/initial_rows.h"
#include "ops/core/record/records_view.h"

namespace keras_sparse::cuda_impl {

// A table as kernels see it. All memory is the GPU's.
struct HbmTable {
  RecordsView records;
  int64_t dim;
  OwnedKeys owned;
  HbmIndexView index;    // of a dynamic table: in a static one the row of an id has its number
  bool outside_is_zero;  // an id outside a static table reads as zeros, instead of being refused
  InitialRows default_rows;  // what an id without a row reads as, in a dynamic one
  IdChecks* checks;          // of this request alone
};

struct FindRequest {
  HbmTable table;
  const int64_t* ids;  // (num_ids)
  int64_t num_ids;
  uint32_t* rows;  // (num_ids) of each id, kNoHbmRow where there is none
};

// Gives the device the work to find all rows. What is refused, and counted, stands in the tables'
// checks once it is done. If it is an id, `any_refused` is other than zero then: all work of the op
// that comes after is to change nothing.
//   any_refused  (1) in the GPU's memory, not written else
Status FindRows(const std::vector<FindRequest>& requests, uint32_t* any_refused, Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_FIND_ROWS_H_
