#include "ops/core/ids/id_columns.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/core/base/cache_line.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/math/vector_math.h"

namespace keras_sparse {
namespace {

constexpr auto kIdsPerLine = static_cast<int64_t>(kCacheLineBytes / sizeof(int64_t));
constexpr int64_t kRowsPerStrip = 64;
// Tiles are read in another order than memory's, which the processor's own prefetcher does not
// follow.
constexpr int64_t kBytesAhead = 8192;
// A second-level cache. Larger columns have left the caches since the last step, and writing to
// them there would read them first.
constexpr int64_t kMaxCachedBytes = int64_t{1} << 20;
constexpr int64_t kPicosecondsPerId = 500;

// Four ids; the compiler maps them to the target's registers.
using Ids4 = int64_t __attribute__((vector_size(32)));
constexpr int64_t kIdsPerVector = 4;

template <typename Id>
Ids4 LoadIds(const Id* from) {
  using Vector __attribute__((vector_size(kIdsPerVector * sizeof(Id)))) = Id;
  Vector ids;
  std::memcpy(&ids, from, sizeof(ids));
  return __builtin_convertvector(ids, Ids4);
}

// Returns the columns of the first four ids of four rows.
template <typename Id>
std::array<Ids4, kIdsPerVector> Transpose(const Id* from, int64_t num_columns) {
  const Ids4 row0 = LoadIds(from);
  const Ids4 row1 = LoadIds(from + num_columns);
  const Ids4 row2 = LoadIds(from + 2 * num_columns);
  const Ids4 row3 = LoadIds(from + 3 * num_columns);
  // Written by element, as compilers have no shuffle in common; they find the instruction.
  const auto even = [](Ids4 a, Ids4 b) { return Ids4{a[0], b[0], a[2], b[2]}; };
  const auto odd = [](Ids4 a, Ids4 b) { return Ids4{a[1], b[1], a[3], b[3]}; };
  const auto low = [](Ids4 a, Ids4 b) { return Ids4{a[0], a[1], b[0], b[1]}; };
  const auto high = [](Ids4 a, Ids4 b) { return Ids4{a[2], a[3], b[2], b[3]}; };
  return {low(even(row0, row1), even(row2, row3)), low(odd(row0, row1), odd(row2, row3)),
          high(even(row0, row1), even(row2, row3)), high(odd(row0, row1), odd(row2, row3))};
}

void WriteIds(Ids4 ids, bool stream, int64_t* to) {
  if (stream) {
    StreamVector(reinterpret_cast<float*>(to), reinterpret_cast<Vector8>(ids));
  } else {
    std::memcpy(to, &ids, sizeof(ids));
  }
}

// Writes the columns of the first kIdsPerLine ids of as many rows: a cache line each.
template <typename Id>
void SplitWholeTile(const Id* from, int64_t num_columns, int64_t stride, bool stream, int64_t* to) {
  for (int64_t c = 0; c < kIdsPerLine; c += kIdsPerVector) {
    const auto begins = Transpose(from + c, num_columns);
    const auto ends = Transpose(from + kIdsPerVector * num_columns + c, num_columns);
    for (int64_t i = 0; i < kIdsPerVector; ++i) {
      int64_t* line = to + (c + i) * stride;
      WriteIds(begins[static_cast<size_t>(i)], stream, line);
      WriteIds(ends[static_cast<size_t>(i)], stream, line + kIdsPerVector);
    }
  }
}

// Writes rows [begin, end) of the columns from `first` on, at most kIdsPerLine of both.
template <typename Id>
void SplitTile(const Id* matrix, int64_t num_columns, int64_t first, int64_t begin, int64_t end,
               int64_t stride, bool stream, int64_t* columns) {
  const int64_t last = std::min(first + kIdsPerLine, num_columns);
  if (last - first == kIdsPerLine && end - begin == kIdsPerLine) {
    return SplitWholeTile(matrix + begin * num_columns + first, num_columns, stride, stream,
                          columns + first * stride + begin);
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
  const bool stream =
      num_columns * stride * static_cast<int64_t>(sizeof(int64_t)) > kMaxCachedBytes;
  const int64_t num_strips = (num_rows + kRowsPerStrip - 1) / kRowsPerStrip;
  const int64_t cost = kRowsPerStrip * num_columns * kPicosecondsPerId / 1000;
  executor->ParallelFor(num_strips, cost, [&](int64_t first_strip, int64_t last_strip) {
    const int64_t end = std::min(last_strip * kRowsPerStrip, num_rows);
    for (int64_t r = first_strip * kRowsPerStrip; r < end; r += kIdsPerLine) {
      const int64_t next = std::min(r + kIdsPerLine, end);
      PrefetchAhead(matrix, num_rows, num_columns, r, next);
      for (int64_t c = 0; c < num_columns; c += kIdsPerLine) {
        SplitTile(matrix, num_columns, c, r, next, stride, stream, columns);
      }
    }
    if (stream) StreamingDone();
  });
}

template void SplitIdColumns(const int32_t*, int64_t, int64_t, int64_t*, Executor*);
template void SplitIdColumns(const int64_t*, int64_t, int64_t, int64_t*, Executor*);

}  // namespace keras_sparse
