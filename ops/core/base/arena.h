// Arena: memory of one table, allocated in pieces and freed all at once.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_ARENA_H_
#define KERAS_SPARSE_OPS_CORE_BASE_ARENA_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/huge_buffer.h"
#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"

namespace keras_sparse {

// Thread safety: every method may be called from any thread.
//
// Pieces come from slabs that grow with the arena, an eighth of it at a time, so that a small table
// stays small and a large one is on huge pages. Untouched slab memory is not resident.
class Arena {
 public:
  // Returns zeroed memory, aligned to a cache line, valid until the arena is destroyed or cleared.
  Status Allocate(int64_t bytes, char** piece);

  // Bytes allocated so far.
  int64_t bytes() const;

  // Frees all memory.
  void Clear();

 private:
  mutable Mutex mutex_;
  std::vector<HugeBuffer> slabs_ GUARDED_BY(mutex_);
  int64_t used_of_last_slab_ GUARDED_BY(mutex_) = 0;
  int64_t handed_out_ GUARDED_BY(mutex_) = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_ARENA_H_
