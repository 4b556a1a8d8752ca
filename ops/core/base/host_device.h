// Functions that CPU code and GPU kernels share, from one source.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_HOST_DEVICE_H_
#define KERAS_SPARSE_OPS_CORE_BASE_HOST_DEVICE_H_

#include <cmath>
#include <cstdint>
#include <limits>

// KERAS_SPARSE_HOST_DEVICE marks a function that both call. KERAS_SPARSE_DEVICE marks one for
// kernels alone, in a header that CPU code also includes.
#ifdef __CUDACC__
#define KERAS_SPARSE_HOST_DEVICE __host__ __device__
#define KERAS_SPARSE_DEVICE __device__
#else
#define KERAS_SPARSE_HOST_DEVICE
#define KERAS_SPARSE_DEVICE
#endif

namespace keras_sparse {

// Limits for which a GPU cannot use std::numeric_limits.
constexpr float kLeastFloat = std::numeric_limits<float>::min();  // the smallest normal float
constexpr float kGreatestFloat = std::numeric_limits<float>::max();
constexpr double kLeastDouble = std::numeric_limits<double>::min();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Functions that the standard library has only for the CPU, with the same bits.
KERAS_SPARSE_HOST_DEVICE inline float Sqrt(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}
KERAS_SPARSE_HOST_DEVICE inline double Sqrt(double x) {
#ifdef __CUDA_ARCH__
  return __dsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}
KERAS_SPARSE_HOST_DEVICE inline float Abs(float x) { return fabsf(x); }
KERAS_SPARSE_HOST_DEVICE inline double Abs(double x) { return fabs(x); }
KERAS_SPARSE_HOST_DEVICE inline float Max(float a, float b) { return a < b ? b : a; }
KERAS_SPARSE_HOST_DEVICE inline float Min(float a, float b) { return b < a ? b : a; }
// REQUIRES: number > 0
KERAS_SPARSE_HOST_DEVICE inline uint32_t HighestBit(uint32_t number) {
#ifdef __CUDA_ARCH__
  return 31 - static_cast<uint32_t>(__clz(static_cast<int>(number)));
#else
  return 31 - static_cast<uint32_t>(__builtin_clz(number));
#endif
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_HOST_DEVICE_H_
