// Dot: the sum of the products of two rows.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_DOT_H_
#define KERAS_SPARSE_OPS_CORE_MATH_DOT_H_

#include <cstdint>
#include <cstring>

#include "ops/core/math/vector_math.h"

namespace keras_sparse {

// Returns the products of the first n of eight floats, for any n, followed by zeros.
inline Vector8 Products(const float* a, const float* b, int64_t n) {
  if (n >= 8) return LoadVector(a) * LoadVector(b);
  Vector8 products = {};
  for (int64_t i = 0; i < n; ++i) products[i] = a[i] * b[i];
  return products;
}

// Returns the sum of the products, in an order that suits a warp of a GPU as well. Each of 32 lanes
// adds the columns with its number modulo 32, one after the other, starting from zero. Then the
// upper half of the lanes is added to the lower half, until one lane is left.
inline float Dot(const float* a, const float* b, int64_t dim) {
  constexpr int64_t kLanes = 32;
  Vector8 lanes_0 = {}, lanes_8 = {}, lanes_16 = {}, lanes_24 = {};
  for (; dim >= kLanes; dim -= kLanes, a += kLanes, b += kLanes) {
    lanes_0 += LoadVector(a) * LoadVector(b);
    lanes_8 += LoadVector(a + 8) * LoadVector(b + 8);
    lanes_16 += LoadVector(a + 16) * LoadVector(b + 16);
    lanes_24 += LoadVector(a + 24) * LoadVector(b + 24);
  }
  if (dim > 0) lanes_0 += Products(a, b, dim);
  if (dim > 8) lanes_8 += Products(a + 8, b + 8, dim - 8);
  if (dim > 16) lanes_16 += Products(a + 16, b + 16, dim - 16);
  if (dim > 24) lanes_24 += Products(a + 24, b + 24, dim - 24);
  const Vector8 eight = (lanes_0 + lanes_16) + (lanes_8 + lanes_24);
  Vector4 halves[2];
  std::memcpy(halves, &eight, sizeof(eight));
  const Vector4 four = halves[0] + halves[1];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_DOT_H_
