// The records of a table in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_HBM_RECORDS_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_HBM_RECORDS_H_

#include <cstddef>
#include <cstdint>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/record/records_view.h"

namespace keras_sparse {

// Each record has the bytes of its RecordLayout, and stands where a GPU reads it at once: at a
// multiple of a memory sector, 32 bytes, or of its own power of two if it is smaller than half of
// one.
//
// Thread safety: that of its device.
class HbmRecords {
 public:
  // Of no defined content. ResourceExhausted if the GPU has no room; InvalidArgument if there are
  // more rows than numbers of 32 bits. The device must outlive them.
  static Status Allocate(Device* device, int64_t num_rows, const RecordLayout& layout,
                         HbmRecords* records);

  const RecordsView& view() const { return view_; }
  int64_t num_rows() const { return view_.num_rows; }
  int64_t bytes() const { return memory_.bytes(); }

  // Copies rows [first, first + n) from or to records that stand side by side in the CPU's memory.
  // Read waits for all work of the device so far.
  //   records  (n, record_bytes)
  Status Write(int64_t first, int64_t n, const void* records);
  Status Read(int64_t first, int64_t n, void* records) const;

 private:
  // Between the view and records side by side in the GPU's memory.
  void Copy(bool write, int64_t first, int64_t n, char* records) const;

  // Calls piece(done, rows, packed) for n rows in turn, with the GPU's memory for that many records
  // side by side.
  template <typename Piece>
  Status ForEachPiece(int64_t n, const Piece& piece) const;

  Device* device_ = nullptr;
  int64_t record_bytes_ = 0;
  DeviceArray<char> memory_;
  RecordsView view_ = {};
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_HBM_RECORDS_H_
