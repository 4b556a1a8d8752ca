// Loops over the floats of rows, written so that the compiler keeps sums in vector registers.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_VECTOR_MATH_H_
#define KERAS_SPARSE_OPS_CORE_MATH_VECTOR_MATH_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __AVX__
#include <immintrin.h>
#endif

#include "ops/core/math/half_floats.h"

namespace keras_sparse {

// Four and eight floats; the compiler maps them to the target's registers.
using Vector4 = float __attribute__((vector_size(16)));
using Vector8 = float __attribute__((vector_size(32)));

// As many integers as a vector has floats.
template <typename Vector>
struct IntegersOf;
template <>
struct IntegersOf<Vector4> {
  using Halves = uint16_t __attribute__((vector_size(8)));
  using Words = uint32_t __attribute__((vector_size(16)));
};
template <>
struct IntegersOf<Vector8> {
  using Halves = uint16_t __attribute__((vector_size(16)));
  using Words = uint32_t __attribute__((vector_size(32)));
};

template <typename Vector = Vector8>
inline Vector LoadVector(const float* from) {
  Vector value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename Vector>
inline void StoreVector(float* to, Vector value) {
  std::memcpy(to, &value, sizeof(value));
}

// How loops load columns of rows of a type.
struct Float32Rows {
  template <typename Vector>
  static Vector Load(const void* row, int64_t column) {
    return LoadVector<Vector>(static_cast<const float*>(row) + column);
  }
  static float LoadOne(const void* row, int64_t column) {
    return static_cast<const float*>(row)[column];
  }
};

struct BFloat16Rows {
  template <typename Vector>
  static Vector Load(const void* row, int64_t column) {
    typename IntegersOf<Vector>::Halves halves;
    std::memcpy(&halves, static_cast<const uint16_t*>(row) + column, sizeof(halves));
    const auto words = __builtin_convertvector(halves, typename IntegersOf<Vector>::Words) << 16;
    Vector value;
    std::memcpy(&value, &words, sizeof(value));
    return value;
  }
  static float LoadOne(const void* row, int64_t column) {
    return BFloat16::Decode(static_cast<const uint16_t*>(row)[column]);
  }
};

struct Float16Rows {
  template <typename Vector>
  static Vector Load(const void* row, int64_t column) {
    const auto* from = static_cast<const uint16_t*>(row) + column;
    constexpr int kSize = sizeof(Vector) / sizeof(float);
    float floats[kSize];
#ifdef __F16C__
    if constexpr (kSize == 8) {
      _mm256_storeu_ps(floats,
                       _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
    } else {
      _mm_storeu_ps(floats, _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
    }
#else
    for (int i = 0; i < kSize; ++i) floats[i] = Float16::Decode(from[i]);
#endif
    return LoadVector<Vector>(floats);
  }
  static float LoadOne(const void* row, int64_t column) {
    return Float16::Decode(static_cast<const uint16_t*>(row)[column]);
  }
};

// Rows are short: a call of memcpy for each would cost as much as the copy. Pairs of 16-bit floats
// are copied as words too, so `to` may be aligned to two bytes only.
inline void CopyRow(const float* from, int64_t dim, float* to) {
  int64_t i = 0;
  for (; i + 8 <= dim; i += 8) StoreVector(to + i, LoadVector(from + i));
  for (; i < dim; ++i) std::memcpy(to + i, from + i, sizeof(float));
}

// Returns whether a row can be written past the caches: in whole, aligned vectors.
inline bool CanStream(int64_t dim, const float* to) {
  const auto vector_bytes = static_cast<uintptr_t>(dim == 4 ? 16 : 32);
  return (dim == 4 || dim % 8 == 0) && reinterpret_cast<uintptr_t>(to) % vector_bytes == 0;
}

// Writes past the caches, which saves reading lines that will be overwritten. Use it only if the
// written rows exceed the cache, and call StreamingDone afterwards.
// REQUIRES: `to` is aligned to the vector
template <typename Vector>
inline void StreamVector(float* to, Vector value) {
#ifdef __AVX__
  if constexpr (sizeof(value) == 32) {
    _mm256_stream_ps(to, value);
  } else {
    _mm_stream_ps(to, value);
  }
#else
  StoreVector(to, value);
#endif
}

// REQUIRES: CanStream(dim, to).
inline void StreamRow(const float* from, int64_t dim, float* to) {
  if (dim == 4) return StreamVector(to, LoadVector<Vector4>(from));
  for (int64_t i = 0; i < dim; i += 8) StreamVector(to + i, LoadVector(from + i));
}

// Makes streamed rows visible to other threads in the usual order.
inline void StreamingDone() {
#ifdef __AVX__
  _mm_sfence();
#endif
}

// Converts a row to floats.
//   stream  whether to write past the caches. Requires CanStream(dim, to)
template <typename Rows>
inline void DecodeRow(const void* row, int64_t dim, float* to, bool stream) {
  if (stream && dim == 4) return StreamVector(to, Rows::template Load<Vector4>(row, 0));
  int64_t i = 0;
  for (; i + 8 <= dim; i += 8) {
    const auto vector = Rows::template Load<Vector8>(row, i);
    if (stream) {
      StreamVector(to + i, vector);
    } else {
      StoreVector(to + i, vector);
    }
  }
  for (; i < dim; ++i) to[i] = Rows::LoadOne(row, i);
}

// The initial value of a sum of rows, and its destination.
struct RowSum {
  const float* begin;   // (dim), or null for `empty`
  float* end;           // (dim), may be `begin`
  float scale = 1;      // factor of the whole sum
  bool stream = false;  // whether to write past the caches. Requires CanStream(dim, end)
  float empty = 0;      // a zero
};

// Sums the columns of kVectors vectors.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): the products are below 100.
template <typename Rows, typename Vector, int kVectors, bool kWeighted, typename Row>
inline void SumColumns(const Row* const* rows, const float* weights, int64_t n, int64_t column,
                       const RowSum& sum) {
  constexpr int kFloats = sizeof(Vector) / sizeof(float);
  Vector total[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    total[v] = sum.begin == nullptr ? sum.empty - Vector{}
                                    : LoadVector<Vector>(sum.begin + column + kFloats * v);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      const auto columns = Rows::template Load<Vector>(rows[i], column + kFloats * v);
      if constexpr (kWeighted) {
        total[v] += weights[i] * columns;
      } else {
        total[v] += columns;
      }
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    total[v] *= sum.scale;
    if (sum.stream) {
      StreamVector(sum.end + column + kFloats * v, total[v]);
    } else {
      StoreVector(sum.end + column + kFloats * v, total[v]);
    }
  }
}
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)

template <typename Rows, bool kWeighted, typename Row>
inline void SumRowsImpl(const Row* const* rows, const float* weights, int64_t n, int64_t dim,
                        const RowSum& sum) {
  int64_t column = 0;
  const auto do_columns = [&](auto vector, auto num_vectors) {
    using Vector = decltype(vector);
    constexpr int kVectors = num_vectors;
    constexpr int64_t kColumns = kVectors * sizeof(Vector) / sizeof(float);
    for (; column + kColumns <= dim; column += kColumns) {
      SumColumns<Rows, Vector, kVectors, kWeighted>(rows, weights, n, column, sum);
    }
  };
  do_columns(Vector8(), std::integral_constant<int, 8>());
  do_columns(Vector8(), std::integral_constant<int, 4>());
  do_columns(Vector8(), std::integral_constant<int, 2>());
  do_columns(Vector8(), std::integral_constant<int, 1>());
  do_columns(Vector4(), std::integral_constant<int, 1>());
  for (; column < dim; ++column) {
    float total = sum.begin == nullptr ? sum.empty : sum.begin[column];
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (kWeighted) {
        total += weights[i] * Rows::LoadOne(rows[i], column);
      } else {
        total += Rows::LoadOne(rows[i], column);
      }
    }
    sum.end[column] = total * sum.scale;
  }
}

// Computes sum.end = sum.scale * (sum.begin + weights[0] * rows[0] + weights[1] * rows[1] + ...) in
// order, so that the result does not depend on how a long sum is divided into calls. Null weights
// mean ones.
//   rows  (n) pointers to dim floats of the type of `Rows`    weights  (n) or null
template <typename Rows = Float32Rows, typename Row>
inline void SumRows(const Row* const* rows, const float* weights, int64_t n, int64_t dim,
                    const RowSum& sum) {
  if (weights == nullptr) {
    SumRowsImpl<Rows, false>(rows, weights, n, dim, sum);
  } else {
    SumRowsImpl<Rows, true>(rows, weights, n, dim, sum);
  }
}

// Computes sum += weight * row, both of shape (dim): SumRows for one row, without an array of
// pointers.
inline void AddScaled(float weight, const float* row, int64_t dim, float* sum) {
  int64_t i = 0;
  for (; i + 8 <= dim; i += 8) {
    StoreVector(sum + i, LoadVector(sum + i) + weight * LoadVector(row + i));
  }
  if (i + 4 <= dim) {
    StoreVector(sum + i, LoadVector<Vector4>(sum + i) + weight * LoadVector<Vector4>(row + i));
    i += 4;
  }
  for (; i < dim; ++i) sum[i] += weight * row[i];
}

inline void Scale(float factor, int64_t dim, float* row) {
  for (int64_t i = 0; i < dim; ++i) row[i] *= factor;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_VECTOR_MATH_H_
