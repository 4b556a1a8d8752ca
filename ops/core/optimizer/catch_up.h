// ReadMovedRows, CatchUpRecords: apply missed steps to records in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_CATCH_UP_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_CATCH_UP_H_

#include <cstdint>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/optimizer/history_on_device.h"
#include "ops/core/optimizer/update_rule.h"
#include "ops/core/record/record_format.h"
#include "ops/core/record/records_view.h"

namespace keras_sparse::cuda_impl {

// Both enqueue work on the device, with the CPU's bits. Return Unimplemented for a rule without a
// kernel.
//   history  the rule's; brought up to date with the rule

// Writes the current values of rows, as of the last finished step; records are unchanged. Needed
// for rules that move rows; rows of other rules can be read in place.
//   rows   (n) row numbers, repeats allowed; for a number beyond the records nothing is written
//   moved  (n, dim) of the type of the rows
Status ReadMovedRows(const UpdateRule& rule, HistoryOnDevice* history, const RecordsView& records,
                     const uint32_t* rows, int64_t n, void* moved, Device* device);

// Applies missed steps to records, and marks them as current: UpdateRule::CatchUp of each. Once all
// records of a table are current, its rule may forget its steps.
//   rows  (n) as above, distinct, or null for the first n records
Status CatchUpRecords(const UpdateRule& rule, HistoryOnDevice* history, const RecordsView& records,
                      const uint32_t* rows, int64_t n, Device* device,
                      const DeviceRounding& rounding = {});

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_CATCH_UP_H_
