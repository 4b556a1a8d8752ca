// Records in a GPU's memory, as kernels reach them.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_RECORDS_VIEW_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_RECORDS_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

// No row has this number.
constexpr uint32_t kNoHbmRow = 0xFFFFFFFFu;

struct RecordsView {
  char* data;
  int64_t stride;    // bytes from one record to the next
  int64_t num_rows;  // below kNoHbmRow

  // REQUIRES: row < num_rows
  KERAS_SPARSE_HOST_DEVICE float* Record(uint32_t row) const {
    return reinterpret_cast<float*>(data + int64_t{row} * stride);
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_RECORDS_VIEW_H_
