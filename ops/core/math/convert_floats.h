// ConvertFloats: floats of one type as floats of another.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_CONVERT_FLOATS_H_
#define KERAS_SPARSE_OPS_CORE_MATH_CONVERT_FLOATS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "ops/core/math/float_type.h"

namespace keras_sparse {

// Copies floats of equal types; otherwise rounds as WriteFloats does.
//   from  (n) of `from_type`    to  (n) of `to_type`
inline void ConvertFloats(FloatType from_type, const void* from, int64_t n, FloatType to_type,
                          void* to) {
  if (from_type == to_type) {
    if (n > 0) std::memcpy(to, from, static_cast<size_t>(FloatBytes(to_type) * n));
    return;
  }
  if (from_type == FloatType::kFloat32) {
    return WriteFloats(to_type, static_cast<const float*>(from), n, to);
  }
  if (to_type == FloatType::kFloat32) {
    return ReadFloats(from_type, from, n, static_cast<float*>(to));
  }
  constexpr int64_t kPiece = 64;
  std::array<float, kPiece> piece;
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t size = std::min(kPiece, n - i);
    ReadFloats(from_type, static_cast<const char*>(from) + 2 * i, size, piece.data());
    WriteFloats(to_type, piece.data(), size, static_cast<char*>(to) + 2 * i);
  }
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_CONVERT_FLOATS_H_
