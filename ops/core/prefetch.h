// Software prefetch. A table is larger than any cache, so loops ask for rows a few dozen ahead.
#ifndef KERAS_SPARSE_OPS_CORE_PREFETCH_H_
#define KERAS_SPARSE_OPS_CORE_PREFETCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace keras_sparse {

constexpr int64_t kCacheLineBytes = 64;
// Rows that are found together. While one block is used the next one is on its way from memory.
constexpr int64_t kBlockRows = 16;
// The rest of a wider row follows by the processor's own stream prefetcher.
constexpr int64_t kMaxPrefetchBytes = 1024;

inline void PrefetchLine(const void* address) { __builtin_prefetch(address, 0, 3); }

inline void PrefetchBytes(const void* address, int64_t bytes) {
  const char* begin = static_cast<const char*>(address);
  const int64_t end = std::min(bytes, kMaxPrefetchBytes);
  for (int64_t i = 0; i < end; i += kCacheLineBytes) __builtin_prefetch(begin + i, 0, 3);
}

// For bytes that are about to be changed.
inline void PrefetchBytesForWrite(const void* address, int64_t bytes) {
  const char* begin = static_cast<const char*>(address);
  const int64_t end = std::min(bytes, kMaxPrefetchBytes);
  for (int64_t i = 0; i < end; i += kCacheLineBytes) __builtin_prefetch(begin + i, 1, 3);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_PREFETCH_H_
