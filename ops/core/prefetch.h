// Software prefetch. A table is larger than any cache, so loops ask for rows a few dozen ahead.
#ifndef KERAS_SPARSE_OPS_CORE_PREFETCH_H_
#define KERAS_SPARSE_OPS_CORE_PREFETCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace keras_sparse {

constexpr int64_t kCacheLineBytes = 64;
// Rows that are found together. While one block is used the next one is on its way from memory.
constexpr int64_t kBlockRows = 32;
// The rest of a wider row follows by the processor's own stream prefetcher.
constexpr int64_t kMaxPrefetchBytes = 1024;

// How many rows of so many bytes to ask for between the uses of others: many at once, so that most
// of them are on their way while a few are used, but fewer lines than the second-level cache has
// room for beside those in use.
inline int64_t RowsAtOnce(int64_t bytes) {
  constexpr int64_t kBytesAtOnce = 8192;
  constexpr int64_t kMinRows = 2;  // calls a row would cost more than they save
  return std::clamp(kBytesAtOnce / bytes, kMinRows, kBlockRows);
}

// How many bytes of a row to ask for where rows lie `stride` bytes apart. One that begins inside a
// cache line may end in one line more.
inline int64_t BytesToPrefetch(int64_t row_bytes, int64_t stride) {
  constexpr int64_t kLatestBegin = kCacheLineBytes - static_cast<int64_t>(sizeof(float));
  return stride % kCacheLineBytes == 0 ? row_bytes : row_bytes + kLatestBegin;
}

// Into the second-level cache. The first level has room for a few dozen lines on their way (24 on
// AMD Zen 4), and all that comes behind them waits while there is none; the second level has room
// for several times as many. Rows of 128 bytes at random come there in half of the time.
//
// GCC takes a function that does nothing but prefetch for one without an effect, and drops the
// calls of it that it does not inline at once. The empty statement is an effect in its eyes.
inline void PrefetchLine(const void* address) {
  constexpr int kForReading = 0;
  constexpr int kIntoSecondLevel = 2;
  __builtin_prefetch(address, kForReading, kIntoSecondLevel);
  asm volatile("" : : "r"(address));
}

inline void PrefetchBytes(const void* address, int64_t bytes) {
  const char* begin = static_cast<const char*>(address);
  const int64_t end = std::min(bytes, kMaxPrefetchBytes);
  for (int64_t i = 0; i < end; i += kCacheLineBytes) PrefetchLine(begin + i);
}

// The first bytes of rows: `n` addresses, which may be null. Line by line over all rows, not row by
// row: neighbouring lines in a row make the processor's own prefetcher run on past the row's end
// and fetch what nobody asked for. Rows of 768 bytes at random come in three quarters of the time.
inline void PrefetchRows(float* const* rows, int64_t n, int64_t bytes) {
  const int64_t end = std::min(bytes, kMaxPrefetchBytes);
  for (int64_t at = 0; at < end; at += kCacheLineBytes) {
    for (int64_t i = 0; i < n; ++i) {
      const auto begin = reinterpret_cast<uintptr_t>(rows[i]);  // null + at would be undefined
      PrefetchLine(reinterpret_cast<const void*>(begin + static_cast<uintptr_t>(at)));
    }
  }
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_PREFETCH_H_
