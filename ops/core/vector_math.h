// Loops over the floats of rows, written so that the compiler keeps sums in vector registers.
#ifndef KERAS_SPARSE_OPS_CORE_VECTOR_MATH_H_
#define KERAS_SPARSE_OPS_CORE_VECTOR_MATH_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace keras_sparse {

// Eight floats; the compiler maps it to what the target has.
using Vector8 = float __attribute__((vector_size(32)));

inline Vector8 LoadVector(const float* from) {
  Vector8 value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

inline void StoreVector(float* to, Vector8 value) { std::memcpy(to, &value, sizeof(value)); }

// Rows are short: a call of memcpy for each would cost as much as the copy.
inline void CopyRow(const float* from, int64_t dim, float* to) {
  int64_t i = 0;
  for (; i + 8 <= dim; i += 8) StoreVector(to + i, LoadVector(from + i));
  for (; i < dim; ++i) to[i] = from[i];
}

// Writes a row past the caches. Worth it only where the rows that are written exceed the cache: it
// spares reading the lines that are about to be overwritten. Needs StreamingDone afterwards.
inline void StreamRow(const float* from, int64_t dim, float* to) {
#ifdef __AVX__
  if (dim % 8 == 0 && reinterpret_cast<uintptr_t>(to) % 32 == 0) {
    for (int64_t i = 0; i < dim; i += 8) _mm256_stream_ps(to + i, _mm256_loadu_ps(from + i));
    return;
  }
#endif
  CopyRow(from, dim, to);
}

// Makes streamed rows visible to other threads in the usual order.
inline void StreamingDone() {
#ifdef __AVX__
  _mm_sfence();
#endif
}

// Adds kVectors * 8 columns of n rows to `sum`.
template <int kVectors, bool kWeighted>
inline void AddColumns(const float* const* rows, const float* weights, int64_t n, int64_t column,
                       float* sum) {
  Vector8 total[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = LoadVector(sum + column + 8 * v);
  for (int64_t i = 0; i < n; ++i) {
    const float* row = rows[i] + column;
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kWeighted) {
        total[v] += weights[i] * LoadVector(row + 8 * v);
      } else {
        total[v] += LoadVector(row + 8 * v);
      }
    }
  }
  for (int v = 0; v < kVectors; ++v) StoreVector(sum + column + 8 * v, total[v]);
}

template <bool kWeighted>
inline void AddRowsImpl(const float* const* rows, const float* weights, int64_t n, int64_t dim,
                        float* sum) {
  int64_t column = 0;
  for (; column + 64 <= dim; column += 64) AddColumns<8, kWeighted>(rows, weights, n, column, sum);
  for (; column + 32 <= dim; column += 32) AddColumns<4, kWeighted>(rows, weights, n, column, sum);
  for (; column + 8 <= dim; column += 8) AddColumns<1, kWeighted>(rows, weights, n, column, sum);
  for (; column < dim; ++column) {
    float total = sum[column];
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (kWeighted) {
        total += weights[i] * rows[i][column];
      } else {
        total += rows[i][column];
      }
    }
    sum[column] = total;
  }
}

// sum += weights[0] * rows[0] + weights[1] * rows[1] + ..., one after the other, so that the result
// does not depend on how a long sum is cut into calls. No weights means ones.
//   rows  (n) pointers to dim floats    weights  (n) or null    sum  (dim)
inline void AddRows(const float* const* rows, const float* weights, int64_t n, int64_t dim,
                    float* sum) {
  if (weights == nullptr) {
    AddRowsImpl<false>(rows, weights, n, dim, sum);
  } else {
    AddRowsImpl<true>(rows, weights, n, dim, sum);
  }
}

inline void Scale(float factor, int64_t dim, float* row) {
  for (int64_t i = 0; i < dim; ++i) row[i] *= factor;
}

inline float Dot(const float* a, const float* b, int64_t dim) {
  Vector8 totals = {};
  int64_t i = 0;
  for (; i + 8 <= dim; i += 8) totals += LoadVector(a + i) * LoadVector(b + i);
  float total = 0;
  for (int lane = 0; lane < 8; ++lane) total += totals[lane];
  for (; i < dim; ++i) total += a[i] * b[i];
  return total;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_VECTOR_MATH_H_
