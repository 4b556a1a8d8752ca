// HbmTransfer: copies data between host memory and a table in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_TRANSFER_H_
#define KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_TRANSFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/index/hbm_index.h"
#include "ops/core/record/hbm_records.h"

namespace keras_sparse {

// Copies in pieces, through buffers that are allocated once on both sides. No transfer needs more
// memory, so a full GPU can still be read and have rows removed. Arrays are in host memory.
//
// Thread safety: every method may be called from any thread.
class HbmTransfer {
 public:
  // The device must outlive the object.
  //   record_bytes  of the largest records
  static Status Open(Device* device, int64_t record_bytes, std::unique_ptr<HbmTransfer>* transfer);

  // Size of the buffer on either side.
  int64_t device_bytes() const { return device_piece_.bytes(); }
  int64_t memory_bytes() const { return device_piece_.bytes(); }

  // Copies the record of rows[i] to place(i), or from place(i).
  //   rows  (n); distinct for writing
  Status Read(const HbmRecords& records, const uint32_t* rows, int64_t n,
              const std::function<char*(int64_t)>& place) EXCLUDES(mutex_);
  Status Write(const uint32_t* rows, int64_t n, const std::function<const char*(int64_t)>& place,
               HbmRecords* records) EXCLUDES(mutex_);

  // Calls use(keys, rows, n) with both in the GPU's memory, one piece at a time.
  //   keys, rows  (n); keys may be null
  using Use = std::function<Status(const int64_t* keys, const uint32_t* rows, int64_t n)>;
  Status Send(const int64_t* keys, const uint32_t* rows, int64_t n, const Use& use)
      EXCLUDES(mutex_);

  // Calls body(memory, bytes) with the GPU's buffer, which it may use until it returns.
  Status Borrow(const std::function<Status(char* memory, int64_t bytes)>& body) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return body(device_piece_.data(), device_piece_.bytes());
  }

  // As in HbmIndex.
  Status Find(const HbmIndex& index, const int64_t* keys, int64_t n, uint32_t* rows)
      EXCLUDES(mutex_);
  Status Erase(const int64_t* keys, int64_t n, uint32_t* rows, HbmIndex* index) EXCLUDES(mutex_);

 private:
  HbmTransfer(Device* device, size_t bytes) : device_(device), host_piece_(bytes) {}

  // Part of two arrays side by side in the GPU's buffer: of wider elements, and of row numbers.
  struct Piece {
    int64_t first;  // number of its first element
    int64_t n;
    char* wide;      // (n, bytes)
    uint32_t* rows;  // (n)
  };
  // Calls body(piece) for n elements of `bytes` bytes, one piece after another.
  template <typename Body>
  Status ForEachPiece(int64_t n, int64_t bytes, const Body& body) REQUIRES(mutex_);

  Device* const device_;
  Mutex mutex_;
  DeviceArray<char> device_piece_;                   // its content is guarded
  std::vector<char> host_piece_ GUARDED_BY(mutex_);  // of the same size
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_TRANSFER_H_
