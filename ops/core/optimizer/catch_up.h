// The moves that records in a GPU's memory have missed.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_CATCH_UP_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_CATCH_UP_H_

#include <cstdint>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/optimizer/history_on_device.h"
#include "ops/core/optimizer/update_rule.h"
#include "ops/core/record/records_view.h"

namespace keras_sparse::cuda_impl {

// Both give the device the work, with the CPU's bits. Unimplemented for a rule without a kernel.
//   history  the rule's; brought to what the rule remembers now

// Writes rows as they read after the last step that was finished; records stay as they are. It is
// of use for rules that move rows: those of others read as they stand.
//   rows   (n) numbers of rows, repeats allowed. Of one beyond the records nothing is written.
//   moved  (n, dim)
Status ReadMovedRows(const UpdateRule& rule, HistoryOnDevice* history, const RecordsView& records,
                     const uint32_t* rows, int64_t n, float* moved, Device* device);

// Makes the moves that records have missed, and marks them so: UpdateRule::CatchUp of each. Once
// that is done for all of a table, its rule may forget its steps.
//   rows  (n) as above, all different, or null for the first n records
Status CatchUpRecords(const UpdateRule& rule, HistoryOnDevice* history, const RecordsView& records,
                      const uint32_t* rows, int64_t n, Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_CATCH_UP_H_
