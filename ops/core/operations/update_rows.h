// One optimizer step on tables in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_UPDATE_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_UPDATE_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/gradients/output_gradient.h"
#include "ops/core/operations/find_rows.h"
#include "ops/core/optimizer/history_on_device.h"
#include "ops/core/optimizer/update_rule.h"

namespace keras_sparse::cuda_impl {

struct UpdateRequest {
  HbmTable table;
  const UpdateRule* rule;    // a step of it was begun
  HistoryOnDevice* history;  // of the rule; brought to what it remembers now
  uint32_t clock;            // of the table, in this step
  OutputGradient gradient;   // all of it in the GPU's memory
  const uint32_t* found;     // (gradient.bags.num_ids) the row of each id, as FindRows gives it
};

// Gives the device the work of ApplyGradients, with its bits: a record makes up for the steps that
// it has missed, the gradients of a row are added in input order, and the row is updated once. Ids
// without a row are left out.
// Unimplemented for a rule without a kernel; nothing is changed then. ResourceExhausted, where the
// GPU has no room for the work itself, may leave some of the tables updated.
//   any_refused  (1) in the GPU's memory, of FindRows: if it is not zero, no table changes
// REQUIRES: no table twice
Status UpdateRows(const std::vector<UpdateRequest>& requests, const uint32_t* any_refused,
                  Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_UPDATE_ROWS_H_
