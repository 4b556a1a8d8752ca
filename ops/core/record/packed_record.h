// Packed records: records whose floats are stored in 16 bits. See RecordLayout.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_PACKED_RECORD_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_PACKED_RECORD_H_

#include <cstdint>

#include "ops/core/base/host_device.h"
#include "ops/core/math/random_bits.h"
#include "ops/core/record/initial_rows.h"
#include "ops/core/record/record_layout.h"

namespace keras_sparse {

// How a step rounds the records of a table: a function of the table's seed, the row's key in the
// whole table, the rule's step and the column there, for CPU and GPU alike. So the result depends
// on no thread, tier or device, and a table that is cut into parts is rounded as the whole table.
struct Rounding {
  bool is_random = false;  // else to the nearest
  uint64_t step = 0;       // finished steps of the rule; see OfCatchUp
  InitialPart part;        // of the whole table, with its seed

  // Returns the rounding of a change between two steps, whose random bits no step uses.
  Rounding OfCatchUp() const { return {is_random, step | uint64_t{1} << 63, part}; }

  KERAS_SPARSE_HOST_DEVICE RandomBits Of(int64_t key) const {
    const uint64_t seed = uint64_t{part.seed.words[1]} << 32 | part.seed.words[0];
    return RandomBits::Of(seed, static_cast<uint64_t>(key) * part.key_stride + part.key_offset,
                          step);
  }
  // The element of RandomBits of the first column of the row, or of a slot.
  //   i  0 for the row, 1 + s for slot s
  KERAS_SPARSE_HOST_DEVICE uint32_t FirstElement(int64_t i) const {
    constexpr uint32_t kPerRow = uint32_t{1} << 24;  // kMaxOutputDim
    return static_cast<uint32_t>(i) * kPerRow + static_cast<uint32_t>(part.first_column);
  }
};
static_assert(kMaxOutputDim == int64_t{1} << 24);

// Converts a record to a float record, which represents the same numbers.
void UnpackRecord(const RecordLayout& layout, const float* record, float* floats);

// Stores a float record, and rounds its row and slots.
void PackRecord(const RecordLayout& layout, const float* floats, const Rounding& rounding,
                int64_t key, float* record);
// Stores a row in a record, rounded to the nearest.
void PackRow(const RecordLayout& layout, const float* row, float* record);

// Rounds the row and slots of a float record to the nearest numbers that records store: what a
// record reads as once missed steps are applied.
void RoundRecord(const RecordLayout& layout, float* floats);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_PACKED_RECORD_H_
