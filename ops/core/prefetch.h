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

// How many rows of so many bytes to ask for between the uses of others. The processor has room for
// a few dozen lines on their way and waits while it has none: a whole block asked for at once would
// keep it from using the block before.
inline int64_t RowsAtOnce(int64_t bytes) {
  constexpr int64_t kBytesAtOnce = 2048;
  constexpr int64_t kMinRows = 2;  // calls a row would cost more than they save
  return std::clamp(kBytesAtOnce / bytes, kMinRows, kBlockRows);
}

// How many bytes of a row to ask for where rows lie `stride` bytes apart. One that begins inside a
// cache line may end in one line more.
inline int64_t BytesToPrefetch(int64_t row_bytes, int64_t stride) {
  constexpr int64_t kLatestBegin = kCacheLineBytes - static_cast<int64_t>(sizeof(float));
  return stride % kCacheLineBytes == 0 ? row_bytes : row_bytes + kLatestBegin;
}

// GCC takes a function that does nothing but prefetch for one without an effect, and drops the
// calls of it that it does not inline at once. The empty statement is an effect in its eyes.
inline void PrefetchLine(const void* address) {
  __builtin_prefetch(address, 0, 3);
  asm volatile("" : : "r"(address));
}

inline void PrefetchBytes(const void* address, int64_t bytes) {
  const char* begin = static_cast<const char*>(address);
  const int64_t end = std::min(bytes, kMaxPrefetchBytes);
  for (int64_t i = 0; i < end; i += kCacheLineBytes) PrefetchLine(begin + i);
}

// The first bytes of rows: `n` addresses, which may be null. A loop a size, since a loop in the
// loop would cost more than its prefetches.
template <int kLines>
inline void PrefetchLines(float* const* rows, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const auto begin = reinterpret_cast<uintptr_t>(rows[i]);  // null has no neighbours to point at
    for (int line = 0; line < kLines; ++line) {
      PrefetchLine(reinterpret_cast<const void*>(begin + line * kCacheLineBytes));
    }
  }
}

inline void PrefetchRows(float* const* rows, int64_t n, int64_t bytes) {
  switch ((std::min(bytes, kMaxPrefetchBytes) + kCacheLineBytes - 1) / kCacheLineBytes) {
    case 1:
      return PrefetchLines<1>(rows, n);
    case 2:
      return PrefetchLines<2>(rows, n);
    case 3:
      return PrefetchLines<3>(rows, n);
    case 4:
      return PrefetchLines<4>(rows, n);
    case 5:
      return PrefetchLines<5>(rows, n);
    case 6:
      return PrefetchLines<6>(rows, n);
    case 7:
      return PrefetchLines<7>(rows, n);
    case 8:
      return PrefetchLines<8>(rows, n);
    default:
      for (int64_t i = 0; i < n; ++i) {
        if (rows[i] != nullptr) PrefetchBytes(rows[i], bytes);
      }
  }
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_PREFETCH_H_
