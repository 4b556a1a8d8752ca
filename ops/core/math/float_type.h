// FloatType: the floats of tensors and messages, in float32 or in half as many bytes.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_FLOAT_TYPE_H_
#define KERAS_SPARSE_OPS_CORE_MATH_FLOAT_TYPE_H_

#include <cstdint>

#include "ops/core/base/host_device.h"
#include "ops/core/math/random_bits.h"

namespace keras_sparse {

enum class FloatType { kFloat32, kFloat16, kBFloat16 };

// Bytes of one float.
KERAS_SPARSE_HOST_DEVICE inline int64_t FloatBytes(FloatType type) {
  return type == FloatType::kFloat32 ? 4 : 2;
}

// Rounds to the nearest, ties to even. A float beyond the range of kFloat16 becomes infinite, as
// TensorFlow's cast does; NaN stays NaN.
//   floats  (n)    to  (n) of the type
void WriteFloats(FloatType type, const float* floats, int64_t n, void* to);
// As WriteFloats, but rounds up or down at random: see half_floats.h. Element i of `floats` is
// element `first + i` of `bits`.
void WriteFloatsRandomly(FloatType type, const float* floats, int64_t n, const RandomBits& bits,
                         uint32_t first, void* to);
// Writes `value` n times, and zeros up to a whole word of 32 bits.
void FillFloats(FloatType type, float value, int64_t n, void* to);
//   from  (n) of the type    floats  (n)
void ReadFloats(FloatType type, const void* from, int64_t n, float* floats);
// Replaces floats by what they are read as once they are written.
void RoundFloats(FloatType type, int64_t n, float* floats);

// Computes sum += weight * row: AddScaled for a row of any type.
//   row  (dim) of the type    sum  (dim)
void AddScaled(FloatType type, float weight, const void* row, int64_t dim, float* sum);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_FLOAT_TYPE_H_
