// HbmChanges: which rows of a table in a GPU's memory have changed since it was saved.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_CHANGES_H_
#define KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_CHANGES_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"

namespace keras_sparse {

// One bit per row, by its number, in the GPU's memory: kernels that have the rows mark changes
// there, and the CPU reads the bits. A free row may be marked, because reusing the row changes it.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the object.
class HbmChanges {
 public:
  // For a table whose changes are not tracked yet. The device must outlive the object.
  explicit HbmChanges(Device* device) : device_(device) {}

  // Starts tracking changes of `num_rows` rows, none of them marked. After an error changes are not
  // tracked.
  Status Begin(int64_t num_rows);
  void End() { *this = HbmChanges(device_); }

  bool are_kept() const { return are_kept_; }

  // The methods below do nothing while changes are not tracked.

  // Allocates marks for `num_rows` rows; after an error nothing has changed.
  Status Grow(int64_t num_rows);
  // Enqueues work on the device to mark rows.
  //   rows  (n) in the GPU's memory: repeats, and kNoHbmRow, allowed
  void Mark(const uint32_t* rows, int64_t n);
  // Appends the numbers of marked rows, about `max_rows` of them. A walk starts at cursor 0 and
  // continues at *next until that is -1. Waits for the device.
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<uint32_t>* rows, int64_t* next) const;
  // Returns which of some rows are marked. Waits for the device.
  Status AreMarked(const std::vector<uint32_t>& rows, std::vector<bool>* are_marked) const;

  int64_t bytes() const { return words_.bytes(); }

 private:
  // Reads the words [first, first + n).
  Status Read(int64_t first, int64_t n, std::vector<uint32_t>* words) const;

  Device* device_;
  DeviceArray<uint32_t> words_;
  bool are_kept_ = false;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_CHANGES_H_
