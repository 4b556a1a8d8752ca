// The records of a table in a GPU's memory.
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

// Each record has the bytes of its RecordLayout, and stands where a GPU reads it at once: at a
// multiple of a memory sector, 32 bytes, or of its own power of two if it is smaller than half of
// one. They lie in slabs (SlabSizes), so that none moves when there are more and no block of memory
// need be large.
//
// Thread safety: const methods may overlap; any other call needs the records alone.
class HbmRecords {
 public:
  // The most bytes of a block of memory, unless one record has more.
  static constexpr int64_t kBlockBytes = int64_t{256} << 20;

  // Bytes of a record with what stands empty behind it.
  static int64_t StrideOf(int64_t record_bytes);

  // Of no rows, and of `most_rows` at most, for which Grow makes memory exactly. The device must
  // outlive them.
  HbmRecords(Device* device, int64_t record_bytes, int64_t most_rows,
             int64_t block_bytes = kBlockBytes);
  HbmRecords() = default;
  // So many rows and no more. Errors are those of Grow.
  static Status Allocate(Device* device, int64_t num_rows, const RecordLayout& layout,
                         HbmRecords* records);

  // Makes memory for so many rows at least; new ones have no defined content. After an error
  // nothing has changed: ResourceExhausted if the GPU has no room, InvalidArgument if there are
  // more rows than kMostHbmRows. A view from before can see the rows that it has until the work is
  // done that the device has been given. REQUIRES: num_rows is at most `most_rows`
  Status Grow(int64_t num_rows);

  const RecordsView& view() const { return view_; }
  int64_t record_bytes() const { return record_bytes_; }
  // That there is memory for.
  int64_t num_rows() const { return view_.num_rows; }
  int64_t bytes() const;

  // Gives the device the work to copy the records of n rows to or from an array where they stand
  // side by side.
  //   rows    (n) in the GPU's memory; to write them, all different
  //   packed  (n, record_bytes) in the GPU's memory
  void Gather(const uint32_t* rows, int64_t n, char* packed) const;
  void Scatter(const uint32_t* rows, int64_t n, const char* packed);

  // Copies rows [first, first + n) from or to records that stand side by side in the CPU's memory.
  // Read waits for all work of the device so far.
  //   records  (n, record_bytes)
  Status Write(int64_t first, int64_t n, const void* records);
  Status Read(int64_t first, int64_t n, void* records) const;

 private:
  // Calls piece(done, rows, packed) for n rows in turn, with the GPU's memory for that many records
  // side by side.
  template <typename Piece>
  Status ForEachPiece(int64_t n, const Piece& piece) const;

  // Adds slabs to these, in one block: of so many rows in all if it can be, and one slab at least.
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
