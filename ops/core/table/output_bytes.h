// How much lookups write from one lookup of a table to its next.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_OUTPUT_BYTES_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_OUTPUT_BYTES_H_

#include <atomic>
#include <cstdint>

namespace keras_sparse {

// One a table. A model that looks it up once a step learns what all lookups of a step write,
// whatever ops and layers they are spread over. A hint, for what gives the same result either way:
// all models of a process count together, and so does the time in which a table is not looked up.
// Thread-safe.
class OutputBytes {
 public:
  // Counts `bytes` that a lookup writes. Returns all bytes that lookups of the process have
  // written.
  static int64_t Add(int64_t bytes) {
    return total_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  }

  // The bytes of all lookups since the table's last one, or since it was made, up to the one that
  // `Add` gave `total` for: that is its last one now. 0 if a later one has been here.
  int64_t Since(int64_t total) {
    int64_t last = last_total_.load(std::memory_order_relaxed);
    while (last < total &&
           !last_total_.compare_exchange_weak(last, total, std::memory_order_relaxed)) {
    }
    return last < total ? total - last : 0;
  }

 private:
  static inline std::atomic<int64_t> total_{0};

  std::atomic<int64_t> last_total_{total_.load(std::memory_order_relaxed)};
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_OUTPUT_BYTES_H_
