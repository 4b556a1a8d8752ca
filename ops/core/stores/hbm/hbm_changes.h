// Which rows of a table in a GPU's memory have changed since it was saved.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_CHANGES_H_
#define KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_CHANGES_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"

namespace keras_sparse {

// A bit of each row, by its number, in the GPU's memory: changes are marked there, by kernels that
// have the rows, and the CPU reads bits. A row that is free may be marked; whoever takes it changes
// it.
//
// Thread safety: const methods may overlap; any other call needs the object alone.
class HbmChanges {
 public:
  // Of a table whose changes are not tracked. The device must outlive it.
  explicit HbmChanges(Device* device) : device_(device) {}

  // Marks are kept from now on, of so many rows, of which none is marked. After an error they are
  // not.
  Status Begin(int64_t num_rows);
  void End() { *this = HbmChanges(device_); }

  bool are_kept() const { return are_kept_; }

  // What follows does nothing while none are kept.

  // Makes memory for the marks of so many rows; after an error nothing has changed.
  Status Grow(int64_t num_rows);
  // Gives the device the work to mark rows.
  //   rows  (n) in the GPU's memory: repeats, and kNoHbmRow, allowed
  void Mark(const uint32_t* rows, int64_t n);
  // Appends the marked rows, about `max_rows` of them, by their numbers. A walk begins at cursor 0
  // and goes on at *next, until that is -1. Waits for the device.
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<uint32_t>* rows, int64_t* next) const;
  // Which of some rows are marked. Waits for the device.
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
