// Neighbouring floats of a row that one lane of a kernel loads and stores together.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_FLOATS_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_FLOATS_H_

#include <cstdint>

#include "ops/core/device/device_code.h"
#include "ops/core/math/float_type.h"
#include "ops/core/math/half_floats.h"

namespace keras_sparse::cuda_impl {

// The maximum of one load of a lane: 16 bytes.
constexpr int kMaxLaneFloats = 4;

template <int kFloats>
struct alignas(sizeof(float) * kFloats) Floats {
  float at[kFloats];
};

// 16-bit floats.
template <int kFloats>
struct alignas(sizeof(uint16_t) * kFloats) Halves {
  uint16_t at[kFloats];
};

// REQUIRES: `from` is aligned to Floats
template <int kFloats>
__device__ inline Floats<kFloats> Load(const float* from) {
  return *reinterpret_cast<const Floats<kFloats>*>(from);
}

//   type  not kFloat32
__device__ inline uint16_t EncodeHalf(FloatType type, float value) {
  return type == FloatType::kFloat16 ? Float16::Encode(value) : BFloat16::Encode(value);
}
__device__ inline float DecodeHalf(FloatType type, uint16_t half) {
  return type == FloatType::kFloat16 ? Float16::Decode(half) : BFloat16::Decode(half);
}

// Stores floats as any type, rounded as WriteFloats does.
// REQUIRES: `to` is aligned to the vector of this type
template <int kFloats>
__device__ inline void Store(FloatType type, const Floats<kFloats>& floats, void* to) {
  if (type == FloatType::kFloat32) {
    *static_cast<Floats<kFloats>*>(to) = floats;
    return;
  }
  Halves<kFloats> halves;
  for (int i = 0; i < kFloats; ++i) {
    halves.at[i] = EncodeHalf(type, floats.at[i]);
  }
  *static_cast<Halves<kFloats>*>(to) = halves;
}

// As Store, but rounds as WriteFloatsRandomly does.
template <int kFloats>
__device__ inline void StoreRandomly(FloatType type, const Floats<kFloats>& floats,
                                     const RandomBits& bits, uint32_t first, void* to) {
  if (type == FloatType::kFloat32) return Store(type, floats, to);
  Halves<kFloats> halves;
  for (int i = 0; i < kFloats; ++i) {
    const uint32_t random = bits.At(first + static_cast<uint32_t>(i));
    halves.at[i] = type == FloatType::kFloat16 ? Float16::EncodeRandomly(floats.at[i], random)
                                               : BFloat16::EncodeRandomly(floats.at[i], random);
  }
  *static_cast<Halves<kFloats>*>(to) = halves;
}

// Rounds floats as RoundFloats does.
template <int kFloats>
__device__ inline void Round(FloatType type, Floats<kFloats>* floats) {
  if (type == FloatType::kFloat32) return;
  for (int i = 0; i < kFloats; ++i) {
    floats->at[i] = DecodeHalf(type, EncodeHalf(type, floats->at[i]));
  }
}

// Loads floats of any type from a row, starting with `column`.
// REQUIRES: they are aligned to the vector of this type
template <int kFloats>
__device__ inline Floats<kFloats> LoadAny(FloatType type, const void* row, int64_t column) {
  if (type == FloatType::kFloat32) return Load<kFloats>(static_cast<const float*>(row) + column);
  const auto halves =
      *reinterpret_cast<const Halves<kFloats>*>(static_cast<const uint16_t*>(row) + column);
  Floats<kFloats> floats;
  for (int i = 0; i < kFloats; ++i) {
    floats.at[i] = DecodeHalf(type, halves.at[i]);
  }
  return floats;
}

// Returns whether each lane can load kMaxLaneFloats of rows of this width, `stride` floats apart,
// starting at `data`.
inline bool HasVectors(const void* data, int64_t stride, int64_t dim, FloatType type) {
  const int64_t bytes = kMaxLaneFloats * FloatBytes(type);
  return dim % kMaxLaneFloats == 0 && stride % kMaxLaneFloats == 0 &&
         reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

// Returns the smallest power of two of lanes that load all columns at once; at most a warp.
inline int LanesOf(int64_t dim, int floats_a_lane) {
  int lanes = 1;
  while (lanes < kWarp && int64_t{lanes} * floats_a_lane < dim) lanes *= 2;
  return lanes;
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_FLOATS_H_
