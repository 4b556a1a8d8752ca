// Sorting on a GPU.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_SORT_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_SORT_H_

#include <cstdint>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"

namespace keras_sparse::cuda_impl {

// Returns the number of bits, at least one, that a number and all smaller ones fit in.
inline int BitsOf(int64_t number) {
  int bits = 1;
  while (number >> bits != 0) ++bits;
  return bits;
}

// Sorts numbers below 2^num_bits; equal numbers keep their order. All memory is the GPU's.
//   numbers, sorted    (n)
//   places             (n) the original position of each sorted number; n < 2^32
Status StableSort(const uint32_t* numbers, int64_t n, int num_bits, Device* device,
                  uint32_t* sorted, uint32_t* places);

// As above, for any keys.
Status StableSort(const int64_t* keys, int64_t n, Device* device, int64_t* sorted,
                  uint32_t* places);

// Returns the positions of the chosen elements, in order.
//   are_chosen  (n) one byte each: chosen if nonzero
//   places      (n) of which num_chosen are written
//   num_chosen  (1)
Status SelectPlaces(const uint8_t* are_chosen, int64_t n, Device* device, uint32_t* places,
                    uint32_t* num_chosen);

// Finds the start of each run of equal numbers.
//   begins    (n) of which num_runs are written
//   num_runs  (1)
Status FindRuns(const uint32_t* sorted, int64_t n, Device* device, uint32_t* begins,
                uint32_t* num_runs);
Status FindRuns(const int64_t* sorted, int64_t n, Device* device, uint32_t* begins,
                uint32_t* num_runs);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_SORT_H_
