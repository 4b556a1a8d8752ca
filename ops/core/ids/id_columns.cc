#include "ops/core/ids/id_columns.h"

#include <algorithm>

#include "ops/core/base/cache_line.h"
#include "ops/core/math/prefetch.h"

namespace keras_sparse {
namespace {

constexpr auto kIdsPerLine = static_cast<int64_t>(kCacheLineBytes / sizeof(int64_t));
constexpr int64_t kRowsPerStrip = 64;
// Tiles are read in another order than memory's, which the processor's own prefetcher does not
// follow.
constexpr int64_t kBytesAhead = 8192;
constexpr int64_t kPicosecondsPerId = 500;

// Writes rows [begin, end) of the columns from `first` on, at most kIdsPerLine of both.
template <typename Id>
void SplitTile(const Id* matrix, int64_t num_columns, int64_t first, int64_t begin, int64_t end,
               int64_t stride, int64_t* columns) {
  const int64_t last = std::min(first + kIdsPerLine, num_columns);
  if (last - first == kIdsPerLine && end - begin == kIdsPerLine) {
    // Loops of constant length, which the compiler unrolls.
    const Id* from = matrix + begin * num_columns + first;
    int64_t* to = columns + first * stride + begin;
    for (int64_t c = 0; c < kIdsPerLine; ++c) {
      for (int64_t r = 0; r < kIdsPerLine; ++r) to[c * stride + r] = from[r * num_columns + c];
    }
    return;
  }
  for (int64_t c = first; c < last; ++c) {
    for (int64_t r = begin; r < end; ++r) columns[c * stride + r] = matrix[r * num_columns + c];
  }
}

// Prefetches what is kBytesAhead of rows [begin, end).
template <typename Id>
void PrefetchAhead(const Id* matrix, int64_t num_rows, int64_t num_columns, int64_t begin,
                   int64_t end) {
  constexpr auto kPerLine = static_cast<int64_t>(kCacheLineBytes / sizeof(Id));
  constexpr auto kAhead = static_cast<int64_t>(kBytesAhead / sizeof(Id));
  const int64_t last = std::min(end * num_columns + kAhead, num_rows * num_columns);
  for (int64_t i = begin * num_columns + kAhead; i < last; i += kPerLine) {
    PrefetchLineInto<CacheLevel::kFirst>(matrix + i);
  }
}

}  // namespace

int64_t IdColumnStride(int64_t num_rows) {
  const int64_t lines = (num_rows + kIdsPerLine - 1) / kIdsPerLine;
  return (lines | 1) * kIdsPerLine;  // odd: lines of one row are in different sets
}

template <typename Id>
void SplitIdColumns(const Id* matrix, int64_t num_rows, int64_t num_columns, int64_t* columns,
                    Executor* executor) {
  const int64_t stride = IdColumnStride(num_rows);
  const int64_t num_strips = (num_rows + kRowsPerStrip - 1) / kRowsPerStrip;
  const int64_t cost = kRowsPerStrip * num_columns * kPicosecondsPerId / 1000;
  executor->ParallelFor(num_strips, cost, [&](int64_t first_strip, int64_t last_strip) {
    for (int64_t strip = first_strip; strip < last_strip; ++strip) {
      const int64_t end = std::min((strip + 1) * kRowsPerStrip, num_rows);
      for (int64_t r = strip * kRowsPerStrip; r < end; r += kIdsPerLine) {
        const int64_t next = std::min(r + kIdsPerLine, end);
        PrefetchAhead(matrix, num_rows, num_columns, r, next);
        for (int64_t c = 0; c < num_columns; c += kIdsPerLine) {
          SplitTile(matrix, num_columns, c, r, next, stride, columns);
        }
      }
    }
  });
}

template void SplitIdColumns(const int32_t*, int64_t, int64_t, int64_t*, Executor*);
template void SplitIdColumns(const int64_t*, int64_t, int64_t, int64_t*, Executor*);

}  // namespace keras_sparse
