// Software prefetch. A table is larger than any cache, so loops ask for rows a few dozen ahead.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_PREFETCH_H_
#define KERAS_SPARSE_OPS_CORE_MATH_PREFETCH_H_

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "ops/core/base/cache_line.h"

namespace keras_sparse {

// Rows that are found together. While one block is used the next one is on its way from memory.
constexpr int64_t kBlockRows = 32;
// The rest of a wider row follows by the processor's own stream prefetcher.
constexpr int64_t kMaxPrefetchBytes = 1024;

// How many bytes of a row to ask for where rows lie `stride` bytes apart, the first at the
// beginning of a cache line. One that begins inside a line may end in one line more.
inline int64_t BytesToPrefetch(int64_t row_bytes, int64_t stride) {
  const int64_t latest_begin = kCacheLineBytes - std::gcd(stride, kCacheLineBytes);
  return row_bytes + latest_begin;
}

// The cache that lines are brought into, as the compiler counts them.
enum class CacheLevel { kFirst = 3, kSecond = 2 };

// Whether few lines can be on their way to this processor's first-level cache at once.
bool HasNarrowFirstLevel();
inline const bool kHasNarrowFirstLevel = HasNarrowFirstLevel();

// Rows of a few lines go into the first level, where their use finds them: a use that the first
// level misses sets off the processor's own prefetchers, which bring lines that are not used.
// Rows of more lines go into the second level, and so do all where the first one is narrow. There
// what comes behind the few lines on their way waits, while the second level has room for several
// times as many.
inline CacheLevel LevelOf(int64_t bytes) {
  constexpr int64_t kMaxBytesInFirst = 256;
  return bytes <= kMaxBytesInFirst && !kHasNarrowFirstLevel ? CacheLevel::kFirst
                                                            : CacheLevel::kSecond;
}

// How an update brings its rows, of which each moves `bytes`. Where the first level is not
// narrow, into that, and no further ahead than it must: while the records before them are written
// back, rows in the second level come late (they took a Zen 5 up to 1.4 times as long).
struct UpdatePrefetch {
  CacheLevel level;
  // Asked for between the uses of others: many, so that most are on their way while a few are used,
  // but fewer lines than there is room for beside those in use.
  int64_t rows_at_once;
  int64_t rows_ahead;  // of their use; from rows_at_once to kBlockRows
};
inline UpdatePrefetch UpdatePrefetchOf(int64_t bytes, bool is_narrow = kHasNarrowFirstLevel) {
  constexpr int64_t kBytesAtOnce = 8192;
  constexpr int64_t kMinRows = 2;  // calls a row would cost more than they save
  const int64_t rows_at_once = std::clamp(kBytesAtOnce / bytes, kMinRows, kBlockRows);
  if (is_narrow) return {CacheLevel::kSecond, rows_at_once, kBlockRows};
  return {CacheLevel::kFirst, rows_at_once, rows_at_once};
}

// GCC takes a function that does nothing but prefetch for one without an effect, and drops the
// calls of it that it does not inline at once. The empty statement is an effect in its eyes.
template <CacheLevel kLevel>
inline void PrefetchLineInto(const void* address) {
  constexpr int kForReading = 0;
  __builtin_prefetch(address, kForReading, static_cast<int>(kLevel));
  asm volatile("" : : "r"(address));
}

// The line `at` bytes behind an address, which may be null: null + at would be undefined.
template <CacheLevel kLevel>
inline void PrefetchLineInto(const void* address, int64_t at) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is read by way of the pointer.
  PrefetchLineInto<kLevel>(reinterpret_cast<const void*>(begin + static_cast<uintptr_t>(at)));
}

// A line that stands alone, of an index say. Alone they come into the first level of a Zen 5 in
// half of the time.
inline void PrefetchLine(const void* address) {
  if (LevelOf(kCacheLineBytes) == CacheLevel::kFirst) {
    PrefetchLineInto<CacheLevel::kFirst>(address);
  } else {
    PrefetchLineInto<CacheLevel::kSecond>(address);
  }
}

// Rows that are in no table: gradients, and those of an exchange. They wait in the second level
// while the records that they go with are on their way.
inline void PrefetchBytes(const void* address, int64_t bytes) {
  const int64_t end = std::min(bytes, kMaxPrefetchBytes);
  for (int64_t at = 0; at < end; at += kCacheLineBytes) {
    PrefetchLineInto<CacheLevel::kSecond>(address, at);
  }
}

// The first bytes of rows: `n` addresses, which may be null. Into the first level row by row. Into
// the second line by line over all rows: neighbouring lines in a row make that level's own
// prefetcher run on past the row's end and fetch what is not used. Rows of 768 bytes at random
// come in three quarters of the time.
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

// Brings what is about to be written.
inline void PrefetchForWrite(const void* begin, int64_t num_bytes) {
  const char* at = static_cast<const char*>(begin);
  for (int64_t i = 0; i < num_bytes + kCacheLineBytes; i += kCacheLineBytes) {
    __builtin_prefetch(at + std::min(i, num_bytes - 1), /*rw=*/1);
  }
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_PREFETCH_H_
