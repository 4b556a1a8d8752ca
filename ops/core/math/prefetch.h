// Software prefetch. A table is larger than any cache, so loops request rows a few dozen ahead.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_PREFETCH_H_
#define KERAS_SPARSE_OPS_CORE_MATH_PREFETCH_H_

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "ops/core/base/cache_line.h"

namespace keras_sparse {

// Rows that are found together. While one block is used, the next one is loaded from memory.
constexpr int64_t kBlockRows = 32;
// The processor's own stream prefetcher loads the rest of a wider row.
constexpr int64_t kMaxPrefetchBytes = 1024;

// Returns how many bytes of a row to prefetch if rows are `stride` bytes apart and the first starts
// a cache line. A row that starts inside a line may end one line later.
inline int64_t BytesToPrefetch(int64_t row_bytes, int64_t stride) {
  const int64_t latest_begin = kCacheLineBytes - std::gcd(stride, kCacheLineBytes);
  return row_bytes + latest_begin;
}

// The cache to prefetch into, in the compiler's numbering.
enum class CacheLevel { kFirst = 3, kSecond = 2 };

// Returns whether this processor's first-level cache can have only few lines in flight.
bool HasNarrowFirstLevel();
inline const bool kHasNarrowFirstLevel = HasNarrowFirstLevel();

// Rows of a few lines are prefetched into the first level, where their use finds them: a use that
// misses the first level triggers the processor's own prefetchers, which load lines that are not
// used. Larger rows are prefetched into the second level, as are all rows if the first level is
// narrow. There further lines wait for the few in flight, while the second level has room for
// several times as many.
inline CacheLevel LevelOf(int64_t bytes) {
  constexpr int64_t kMaxBytesInFirst = 256;
  return bytes <= kMaxBytesInFirst && !kHasNarrowFirstLevel ? CacheLevel::kFirst
                                                            : CacheLevel::kSecond;
}

// How an update prefetches its rows, each moving `bytes`. If the first level is not narrow, rows
// are prefetched into it, and no further ahead than necessary: while earlier records are written
// back, rows in the second level arrive late (on a Zen 5 this took up to 1.4 times as long).
struct UpdatePrefetch {
  CacheLevel level;
  // Rows prefetched between the uses of others: enough that most are in flight while a few are
  // used, but fewer lines than fit beside those in use.
  int64_t rows_at_once;
  int64_t rows_ahead;  // ahead of their use; from rows_at_once to kBlockRows
};
inline UpdatePrefetch UpdatePrefetchOf(int64_t bytes, bool is_narrow = kHasNarrowFirstLevel) {
  constexpr int64_t kBytesAtOnce = 8192;
  constexpr int64_t kMinRows = 2;  // one call per row would cost more than it saves
  const int64_t rows_at_once = std::clamp(kBytesAtOnce / bytes, kMinRows, kBlockRows);
  if (is_narrow) return {CacheLevel::kSecond, rows_at_once, kBlockRows};
  return {CacheLevel::kFirst, rows_at_once, rows_at_once};
}

// GCC treats a function that only prefetches as having no effect, and drops the calls that it does
// not inline immediately. The empty asm statement counts as an effect.
template <CacheLevel kLevel>
inline void PrefetchLineInto(const void* address) {
  constexpr int kForReading = 0;
  __builtin_prefetch(address, kForReading, static_cast<int>(kLevel));
  asm volatile("" : : "r"(address));
}

// Prefetches the line `at` bytes after an address, which may be null: null + at would be undefined.
template <CacheLevel kLevel>
inline void PrefetchLineInto(const void* address, int64_t at) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is read by way of the pointer.
  PrefetchLineInto<kLevel>(reinterpret_cast<const void*>(begin + static_cast<uintptr_t>(at)));
}

// Prefetches a single line, for example of an index. On a Zen 5 single lines arrive in the first
// level in half of the time.
inline void PrefetchLine(const void* address) {
  if (LevelOf(kCacheLineBytes) == CacheLevel::kFirst) {
    PrefetchLineInto<CacheLevel::kFirst>(address);
  } else {
    PrefetchLineInto<CacheLevel::kSecond>(address);
  }
}

// Prefetches rows outside tables: gradients, and rows of an exchange. They wait in the second level
// while their records are in flight.
inline void PrefetchBytes(const void* address, int64_t bytes) {
  const int64_t end = std::min(bytes, kMaxPrefetchBytes);
  for (int64_t at = 0; at < end; at += kCacheLineBytes) {
    PrefetchLineInto<CacheLevel::kSecond>(address, at);
  }
}

// Prefetches the first bytes of rows: `n` addresses, which may be null. Goes row by row for the
// first level, and line by line over all rows for the second: neighbouring lines of a row make the
// second level's own prefetcher run past the row's end and load unused lines. Random rows of 768
// bytes then arrive in three quarters of the time.
inline void PrefetchRows(float* const* rows, int64_t n, int64_t bytes, CacheLevel level) {
  const int64_t end = std::min(bytes, kMaxPrefetchBytes);
  if (level == CacheLevel::kFirst) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t at = 0; at < end; at += kCacheLineBytes) {
        PrefetchLineInto<CacheLevel::kFirst>(rows[i], at);
      }
    }
  } else {
    for (int64_t at = 0; at < end; at += kCacheLineBytes) {
      for (int64_t i = 0; i < n; ++i) PrefetchLineInto<CacheLevel::kSecond>(rows[i], at);
    }
  }
}

// Prefetches memory that will be written.
inline void PrefetchForWrite(const void* begin, int64_t num_bytes) {
  const char* at = static_cast<const char*>(begin);
  for (int64_t i = 0; i < num_bytes + kCacheLineBytes; i += kCacheLineBytes) {
    __builtin_prefetch(at + std::min(i, num_bytes - 1), /*rw=*/1);
  }
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_PREFETCH_H_
