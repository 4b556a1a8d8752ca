// RecordFormat: how kernels access the floats of records in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_RECORD_FORMAT_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_RECORD_FORMAT_H_

#include <cstdint>

#include "ops/core/base/host_device.h"
#include "ops/core/record/packed_record.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/record/records_view.h"

namespace keras_sparse {

// How a change rounds the records that it stores.
struct DeviceRounding {
  Rounding rounding;
  RecordsView keys = {};  // (8 bytes) the key of each row; without slabs a row's key is its number

  KERAS_SPARSE_DEVICE RandomBits Of(uint32_t row) const {
    if (!rounding.is_random) return {0, 0};
    return rounding.Of(keys.slabs == nullptr ? int64_t{row}
                                             : *reinterpret_cast<int64_t*>(keys.Record(row)));
  }
};

struct RecordFormat {
  RecordTypes types;
  int64_t dim = 0;
  int64_t row_words = 0;
  int64_t slot_words = 0;  // of a slot with one float per element
  DeviceRounding rounding;

  static RecordFormat Of(const RecordLayout& layout, const DeviceRounding& rounding) {
    return {layout.types(), layout.dim(), layout.row_words(), layout.slot_words({"", false, 0}),
            rounding};
  }

  // The row (part 0) and the slots (1, 2, ...) with one float per element.
  KERAS_SPARSE_HOST_DEVICE FloatType TypeOf(int part) const {
    return part == 0 ? types.row : types.slots;
  }
  KERAS_SPARSE_HOST_DEVICE int64_t WordOf(int part) const {
    return part == 0 ? 0 : row_words + (part - 1) * slot_words;
  }

  // Returns whether lanes can load four floats of every part at once.
  bool HasVectors() const {
    constexpr int64_t kLaneFloats = 4;
    const bool aligns_slots = types.row == types.slots || types.row == FloatType::kFloat32 ||
                              dim % (2 * kLaneFloats) == 0;
    return dim % kLaneFloats == 0 && aligns_slots;
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_RECORD_FORMAT_H_
