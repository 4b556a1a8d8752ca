// RecordsView: records in a GPU's memory, as kernels access them.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_RECORDS_VIEW_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_RECORDS_VIEW_H_

#include <cstdint>

#include "ops/core/base/host_device.h"
#include "ops/core/index/hbm_row.h"

namespace keras_sparse {

// The number of rows in each slab. As in RecordSlabs, the size doubles after every 32 slabs, so
// that a small table stays small and a large one has few slabs; but slabs have a maximum size.
struct SlabSizes {
  static constexpr uint32_t kSlabBits = 5;  // 32 slabs per size
  static constexpr uint32_t kMostFirstShift = 6;

  uint32_t first_shift;  // the first slab has 1 << first_shift rows,
  uint32_t last_shift;   // the largest ones 1 << last_shift

  KERAS_SPARSE_HOST_DEVICE uint32_t ShiftOfSlab(uint32_t slab) const {
    const uint32_t shift = first_shift + (slab >> kSlabBits);
    return shift < last_shift ? shift : last_shift;
  }

  // The slab of a row, and its number in the slab.
  struct Place {
    uint32_t slab;
    uint32_t row;
  };
  // REQUIRES: row < kMostHbmRows
  KERAS_SPARSE_HOST_DEVICE Place PlaceOf(uint32_t row) const {
    // Rows are counted from the first number whose highest bit selects the size of the slab, and
    // whose next bits select the slab of that size.
    const uint32_t at = row + (1u << (kSlabBits + first_shift));
    const uint32_t shift_by_octave = HighestBit(at) - kSlabBits;
    const uint32_t shift = shift_by_octave < last_shift ? shift_by_octave : last_shift;
    const uint32_t slab = ((shift - first_shift - 1) << kSlabBits) + (at >> shift);
    return {slab, at & ((1u << shift) - 1)};
  }
};
static_assert(kMostHbmRows + (int64_t{1} << (SlabSizes::kSlabBits + SlabSizes::kMostFirstShift)) <=
                  int64_t{1} << 32,
              "rows are counted in 32 bits");

// A view of memory to which slabs can be added: the records of a view never move.
struct RecordsView {
  char* const* slabs;  // in the GPU's memory
  SlabSizes sizes;
  int64_t stride;    // bytes from one record of a slab to the next
  int64_t num_rows;  // rows allocated; at most kMostHbmRows

  // REQUIRES: row < num_rows
  KERAS_SPARSE_DEVICE float* Record(uint32_t row) const {
    const SlabSizes::Place place = sizes.PlaceOf(row);
    return reinterpret_cast<float*>(slabs[place.slab] + int64_t{place.row} * stride);
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_RECORDS_VIEW_H_
