// InitializeRecords, LayOutRecords: write the content of new records in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_NEW_RECORDS_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_NEW_RECORDS_H_

#include <cstdint>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/record/initial_rows.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/record/records_view.h"

namespace keras_sparse::cuda_impl {

// Initializes records with their initial row and slots, marked as last updated at `step`.
//   keys, rows  (n) of the records, in the GPU's memory; null for the first n rows of a static
//               table, whose keys are their numbers
Status InitializeRecords(const RecordsView& records, const int64_t* keys, const uint32_t* rows,
                         int64_t n, const InitialRows& initial_rows, const RecordLayout& layout,
                         int64_t step, Device* device);

// Rewrites the first n records in a new layout, in other memory; see RecordLayout::LayOut. Both
// layouts keep the same words for the table.
Status LayOutRecords(const RecordsView& from, const RecordLayout& from_layout,
                     const RecordsView& records, int64_t n, const RecordLayout& layout,
                     int64_t step, Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_NEW_RECORDS_H_
