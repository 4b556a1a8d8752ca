// HugeBuffer: zeroed memory from the system, on huge pages if available.
//
// Rows are read at random from gigabytes, so with 4 KiB pages nearly every row also costs a
// page-table walk. With 2 MiB pages a whole training step is 1.3 to 1.7 times as fast.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_HUGE_BUFFER_H_
#define KERAS_SPARSE_OPS_CORE_BASE_HUGE_BUFFER_H_

#include <cstdint>

#include "ops/core/base/status.h"

namespace keras_sparse {

constexpr int64_t kHugePageBytes = int64_t{2} << 20;

class HugeBuffer {
 public:
  // Reserves memory, which becomes resident page by page as it is touched. A buffer smaller than a
  // huge page is plain memory. Returns ResourceExhausted if the system has no room.
  static Status Allocate(int64_t bytes, HugeBuffer* buffer);

  HugeBuffer() = default;
  ~HugeBuffer();
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  // Returns the whole pages inside [begin, end) to the system; they read as zeros afterwards.
  void Discard(int64_t begin, int64_t end);

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  char* mapping_ = nullptr;  // starts at most one huge page before data_
  int64_t mapping_bytes_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_HUGE_BUFFER_H_
