// HbmRecords: the records of a table in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_HBM_RECORDS_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_HBM_RECORDS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/record/records_view.h"

namespace keras_sparse {

// Each record has the bytes of its RecordLayout. It is aligned so that a GPU reads it at once: to a
// memory sector of 32 bytes, or to the next power of two if it is smaller than half a sector.
// Records are in slabs (SlabSizes), so that no record moves when rows are added, and no block of
// memory need be large.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the records.
class HbmRecords {
 public:
  // Maximum size of a block of memory, unless one record is larger.
  static constexpr int64_t kBlockBytes = int64_t{256} << 20;

  // Returns the bytes of a record including padding.
  static int64_t StrideOf(int64_t record_bytes);

  // Creates an object without rows. Grow allocates memory for at most `most_rows`, and exactly for
  // that many if asked to. The device must outlive the object.
  HbmRecords(Device* device, int64_t record_bytes, int64_t most_rows,
             int64_t block_bytes = kBlockBytes);
  HbmRecords() = default;
  // Allocates exactly `num_rows` rows. Returns the errors of Grow.
  static Status Allocate(Device* device, int64_t num_rows, const RecordLayout& layout,
                         HbmRecords* records);

  // Allocates memory for at least `num_rows` rows; new rows are undefined. After an error nothing
  // has changed: returns ResourceExhausted if the GPU has no room, InvalidArgument for more than
  // kMostHbmRows rows. An earlier view stays valid for its rows until the work already enqueued on
  // the device is done.
  // REQUIRES: num_rows <= `most_rows`
  Status Grow(int64_t num_rows);

  const RecordsView& view() const { return view_; }
  int64_t record_bytes() const { return record_bytes_; }
  // Number of rows allocated.
  int64_t num_rows() const { return view_.num_rows; }
  int64_t bytes() const;

  // Enqueues work on the device to copy the records of n rows to or from a packed array.
  //   rows    (n) in the GPU's memory; distinct for Scatter
  //   packed  (n, record_bytes) in the GPU's memory
  void Gather(const uint32_t* rows, int64_t n, char* packed) const;
  void Scatter(const uint32_t* rows, int64_t n, const char* packed);

  // Copies rows [first, first + n) from or to packed records in host memory. Read waits for all
  // work enqueued on the device so far.
  //   records  (n, record_bytes)
  Status Write(int64_t first, int64_t n, const void* records);
  Status Read(int64_t first, int64_t n, void* records) const;

 private:
  // Calls piece(done, rows, packed) for n rows in pieces, with GPU memory for that many packed
  // records.
  template <typename Piece>
  Status ForEachPiece(int64_t n, const Piece& piece) const;

  // Adds slabs in one block: up to `num_rows` rows in total if they fit, but at least one slab.
  Status AddBlock(int64_t num_rows, int64_t* rows, std::vector<char*>* slabs,
                  std::vector<DeviceArray<char>>* blocks) const;

  Device* device_ = nullptr;
  int64_t record_bytes_ = 0;
  int64_t most_rows_ = 0;
  int64_t block_bytes_ = 0;
  std::vector<DeviceArray<char>> blocks_;
  std::vector<char*> slabs_;  // within the blocks, by number
  DeviceArray<char*> slabs_on_device_;
  RecordsView view_ = {};
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_HBM_RECORDS_H_
