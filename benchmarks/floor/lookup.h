// Lookups of plain C++: rows are located and prefetched a group ahead of those that are copied or
// summed.
#ifndef KERAS_SPARSE_BENCHMARKS_FLOOR_LOOKUP_H_
#define KERAS_SPARSE_BENCHMARKS_FLOOR_LOOKUP_H_

#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tables.h"

namespace plain {

constexpr int kProbeGroup = 16;  // keys whose index lines are fetched together

// A write that the caches need not keep: outputs and records are larger than they are.
template <int D>
void CopyRow(float* to, const float* from, bool stream) {
  if (D % 8 == 0 && stream) {  // a row of 4 shares its vector with the next one
    for (int i = 0; i < D; i += 8) _mm256_stream_ps(to + i, _mm256_loadu_ps(from + i));
  } else {
    for (int i = 0; i < D; ++i) to[i] = from[i];
  }
}

// What a lookup reads of a record, and makes of it.
struct AsItStands {
  template <int D>
  static constexpr int kFloats = D;
  template <int D>
  const float* Row(const float* record, float* /*made*/) const {
    return record;
  }
};

// Adam's moves of rows without a gradient, up to the last step: as cheap as they can be had, and no
// more than about right. After k steps a row has moved by momentum / (sqrt(velocity) + epsilon)
// times the sum of their weights, as if all had the learning rate of the last one.
//
//   row (D) | momentum (D) | velocity (D) | step of the last gradient
struct CaughtUp {
  static constexpr int kMostMissed = 256;
  int32_t step = 0;
  float epsilon = 1e-7f;
  float moves[kMostMissed], momentum_left[kMostMissed], velocity_left[kMostMissed];

  CaughtUp(int64_t finished_steps, float alpha) : step(static_cast<int32_t>(finished_steps)) {
    double sum = 0;
    for (int k = 0; k < kMostMissed; ++k) {
      if (k > 0) sum += alpha * std::pow(0.9 / std::sqrt(0.999), k);
      moves[k] = static_cast<float>(sum);
      momentum_left[k] = static_cast<float>(std::pow(0.9, k));
      velocity_left[k] = static_cast<float>(std::pow(0.999, k));
    }
  }

  template <int D>
  static constexpr int kFloats = 3 * D + 1;
  template <int D>
  int Missed(const float* record) const {
    int32_t last;
    std::memcpy(&last, record + 3 * D, sizeof(last));
    return std::min(step - last, kMostMissed - 1);
  }
  template <int D>
  const float* Row(const float* record, float* made) const {
    const int missed = Missed<D>(record);
    if (missed == 0) return record;
    for (int i = 0; i < D; ++i) {
      made[i] =
          record[i] - moves[missed] * record[D + i] / (std::sqrt(record[2 * D + i]) + epsilon);
    }
    return made;
  }
};

template <int D, class Reader>
void Gather(const Group& group, const Table& table, const int64_t* ids, int64_t begin, int64_t end,
            float* out, bool stream, const Reader& reader) {
  float* records[2 * kProbeGroup];
  auto locate = [&](int64_t at) {
    const int64_t n = std::min<int64_t>(kProbeGroup, end - at);
    float** slot = records + (at / kProbeGroup % 2) * kProbeGroup;
    if (n > 0) Locate<D>(group, table, ids + at, n, slot);
    for (int64_t i = 0; i < n; ++i) PrefetchFloats<Reader::template kFloats<D>>(slot[i]);
  };
  // One group's index lines are probed while the rows of the group before are on their way.
  if (table.index != nullptr) {
    for (int64_t i = begin; i < std::min(end, begin + 2 * kProbeGroup); ++i) {
      __builtin_prefetch(&table.index[Hash(ids[i]) & table.mask]);
    }
  }
  for (int64_t at = begin; at < end + kProbeGroup; at += kProbeGroup) {
    if (table.index != nullptr) {
      for (int64_t i = at + kProbeGroup; i < std::min(end, at + 2 * kProbeGroup); ++i) {
        __builtin_prefetch(&table.index[Hash(ids[i]) & table.mask]);
      }
    }
    if (at < end) locate(at);
    const int64_t before = at - kProbeGroup;
    if (before < begin) continue;
    float** slot = records + (before / kProbeGroup % 2) * kProbeGroup;
    for (int64_t i = 0; i < std::min<int64_t>(kProbeGroup, end - before); ++i) {
      alignas(32) float made[D];
      CopyRow<D>(out + (before + i) * group.output_stride, reader.template Row<D>(slot[i], made), stream);
    }
  }
}

template <int D, class Reader>
void GatherSum(const Group& group, const Table& table, const int64_t* ids, const int64_t* splits,
               int64_t begin_bag, int64_t end_bag, float* out, const Reader& reader) {
  const int64_t end = splits[end_bag];
  int64_t ready = splits[begin_bag];  // records located and prefetched so far
  constexpr int kRing = 64;
  float* ring[kRing];
  auto advance = [&](int64_t to) {
    to = std::min(to, end);
    while (ready < to) {
      const int64_t n = std::min<int64_t>({8, end - ready, kRing - ready % kRing});
      if (table.index != nullptr) {
        for (int64_t i = ready + 16; i < std::min(ready + 24, end); ++i) {
          __builtin_prefetch(&table.index[Hash(ids[i]) & table.mask]);
        }
      }
      Locate<D>(group, table, ids + ready, n, ring + ready % kRing);
      for (int64_t i = 0; i < n; ++i) {
        PrefetchFloats<Reader::template kFloats<D>>(ring[(ready + i) % kRing]);
      }
      ready += n;
    }
  };
  for (int64_t bag = begin_bag; bag < end_bag; ++bag) {
    float sum[D] = {};
    for (int64_t i = splits[bag]; i < splits[bag + 1]; ++i) {
      advance(i + 16);
      float made[D];
      const float* row = reader.template Row<D>(ring[i % kRing], made);
      for (int d = 0; d < D; ++d) sum[d] += row[d];
    }
    for (int d = 0; d < D; ++d) out[bag * group.output_stride + d] = sum[d];
  }
}

template <int D, class Reader>
void Lookup(const Group& group, const int64_t* const* ids, const int64_t* const* splits,
            const int64_t* num_ids, int64_t num_bags, float* const* outs, bool stream,
            const Reader& reader) {
  const int64_t num_tables = static_cast<int64_t>(group.tables.size());
  const int64_t pieces = num_tables >= omp_get_max_threads() ? 1 : 8;
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t task = 0; task < num_tables * pieces; ++task) {
    const int64_t t = task / pieces;
    const int64_t piece = task % pieces;
    const Table& table = group.tables[t];
    if (splits == nullptr) {
      Gather<D>(group, table, ids[t], num_ids[t] * piece / pieces,
                num_ids[t] * (piece + 1) / pieces, outs[t], stream, reader);
    } else {
      GatherSum<D>(group, table, ids[t], splits[t], num_bags * piece / pieces,
                   num_bags * (piece + 1) / pieces, outs[t], reader);
    }
    if (stream) _mm_sfence();  // what this thread wrote past the caches is visible to others
  }
}

}  // namespace plain

#endif  // KERAS_SPARSE_BENCHMARKS_FLOOR_LOOKUP_H_
