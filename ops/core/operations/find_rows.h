// FindRows: finds the rows of ids in tables in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_FIND_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_FIND_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/ids/id_checks.h"
#include "ops/core/ids/owned_keys.h"
#include "ops/core/index/hbm_index.h"
#include "ops/core/math/float_type.h"
#include "ops/core/record/initial_rows.h"
#include "ops/core/record/records_view.h"

namespace keras_sparse::cuda_impl {

// A table as kernels see it. All memory is the GPU's.
struct HbmTable {
  RecordsView records;
  int64_t dim;
  OwnedKeys owned;
  HbmIndexView index;        // of a dynamic table; in a static one, the id is the row number
  bool outside_is_zero;      // whether ids outside a static table read as zeros
  InitialRows default_rows;  // the values of ids without a row, in a dynamic table
  IdChecks* checks;          // of this request alone
  FloatType row_type = {};   // of the rows in the records
};

struct FindRequest {
  HbmTable table;
  const int64_t* ids;  // (num_ids)
  int64_t num_ids;
  uint32_t* rows;  // (num_ids) the row of each id, kNoHbmRow for none
};

// Enqueues work on the device to find all rows. When the work is done, the tables' checks hold
// rejected ids and counts. If an id was rejected, `any_refused` is nonzero, and all later work of
// the op must change nothing.
//   any_refused  (1) in the GPU's memory; not written if no id is rejected
Status FindRows(const std::vector<FindRequest>& requests, uint32_t* any_refused, Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_FIND_ROWS_H_
