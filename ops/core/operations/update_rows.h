// UpdateRows: one optimizer step on tables in a GPU's memory.
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
#include "ops/core/record/record_format.h"

namespace keras_sparse::cuda_impl {

// The gradient of a lookup, all of it in the GPU's memory.
struct FoundGradient {
  OutputGradient gradient;
  const uint32_t* found;  // (gradient.bags.num_ids) the row of each id, as FindRows returns it
};

struct UpdateRequest {
  HbmTable table;
  const UpdateRule* rule;                // its step has begun
  HistoryOnDevice* history;              // of the rule; brought up to date with the rule
  uint32_t clock;                        // of the table, in this step
  std::vector<FoundGradient> gradients;  // of the table's lookups: see ApplyRequest
  DeviceRounding rounding = {};
};

// Enqueues the work of ApplyGradients on the device, with the same bits: a record catches up on its
// missed steps, the gradients of a row are added in order, and the row is updated once. Ids
// without a row are skipped. Returns Unimplemented for a rule without a kernel; nothing has changed
// then. Returns ResourceExhausted if the GPU has no room for the work itself; some tables may have
// been updated then.
//   any_refused  (1) in the GPU's memory, from FindRows: if nonzero, no table changes
// REQUIRES: no table occurs twice
Status UpdateRows(const std::vector<UpdateRequest>& requests, const uint32_t* any_refused,
                  Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_UPDATE_ROWS_H_
