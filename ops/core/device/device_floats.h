// Neighbouring floats of a row, as one lane of a kernel reads and writes them.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_FLOATS_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_FLOATS_H_

#include <cstdint>

#include "ops/core/device/device_code.h"
#include "ops/core/math/float_type.h"
#include "ops/core/math/half_floats.h"

namespace keras_sparse::cuda_impl {

// As many as one load of a lane brings at most: 16 bytes.
constexpr int kMaxLaneFloats = 4;

template <int kFloats>
struct alignas(sizeof(float) * kFloats) Floats {
  float at[kFloats];
};

// In half as many bytes.
template <int kFloats>
struct alignas(sizeof(uint16_t) * kFloats) Halves {
  uint16_t at[kFloats];
};

// REQUIRES: `from` is aligned as the floats are
template <int kFloats>
__device__ inline Floats<kFloats> Load(const float* from) {
  return *reinterpret_cast<const Floats<kFloats>*>(from);
}

// To floats of any type, rounded as WriteFloats does.
// REQUIRES: `to` is aligned as the floats of this type are
template <int kFloats>
__device__ inline void Store(FloatType type, const Floats<kFloats>& floats, void* to) {
  if (type == FloatType::kFloat32) {
    *static_cast<Floats<kFloats>*>(to) = floats;
    return;
  }
  Halves<kFloats> halves;
  for (int i = 0; i < kFloats; ++i) {
    halves.at[i] = type == FloatType::kFloat16 ? Float16::Encode(floats.at[i])
                                               : BFloat16::Encode(floats.at[i]);
  }
  *static_cast<Halves<kFloats>*>(to) = halves;
}

// From a row of floats of any type, those from `column` on.
// REQUIRES: they are aligned as the floats of this type are
template <int kFloats>
__device__ inline Floats<kFloats> LoadAny(FloatType type, const void* row, int64_t column) {
  if (type == FloatType::kFloat32) return Load<kFloats>(static_cast<const float*>(row) + column);
  const auto halves =
      *reinterpret_cast<const Halves<kFloats>*>(static_cast<const uint16_t*>(row) + column);
  Floats<kFloats> floats;
  for (int i = 0; i < kFloats; ++i) {
    floats.at[i] = type == FloatType::kFloat16 ? Float16::Decode(halves.at[i])
                                               : BFloat16::Decode(halves.at[i]);
  }
  return floats;
}

// Whether each lane can take kMaxLaneFloats of rows so wide, `stride` floats apart from `data` on.
inline bool HasVectors(const void* data, int64_t stride, int64_t dim, FloatType type) {
  const int64_t bytes = kMaxLaneFloats * FloatBytes(type);
  return dim % kMaxLaneFloats == 0 && stride % kMaxLaneFloats == 0 &&
         reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

// The fewest lanes that take all columns at once, a power of two; a warp at most.
inline int LanesOf(int64_t dim, int floats_a_lane) {
  int lanes = 1;
  while (lanes < kWarp && int64_t{lanes} * floats_a_lane < dim) lanes *= 2;
  return lanes;
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_FLOATS_H_
