// OutputBytes: counts the bytes that lookups write between two lookups of one table.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_OUTPUT_BYTES_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_OUTPUT_BYTES_H_

#include <atomic>
#include <cstdint>

namespace keras_sparse {

// Each table has one. A model that looks the table up once a step learns how many bytes all lookups
// of a step write, in all ops and layers. The count is a hint for choices that give the same result
// either way: it includes all models of the process, and time without lookups of the table.
// Thread-safe.
class OutputBytes {
 public:
  // Counts `bytes` that a lookup writes. Returns the total of all lookups of the process.
  static int64_t Add(int64_t bytes) {
    return total_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  }

  // Returns the bytes of all lookups since the table's last lookup (or since its creation), up to
  // the lookup for which `Add` returned `total`. That lookup becomes the last one. Returns 0 if a
  // later lookup has already called this.
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
