// Floats in half as many bytes, one at a time: conversions to and from their 16 bits.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_HALF_FLOATS_H_
#define KERAS_SPARSE_OPS_CORE_MATH_HALF_FLOATS_H_

#include <cstdint>
#include <cstring>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

KERAS_SPARSE_HOST_DEVICE inline uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

KERAS_SPARSE_HOST_DEVICE inline float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// EncodeRandomly rounds up or down at random, with the probability that makes the expectation the
// value itself. `random` is uniform below 2^16.

// The upper half of a float32, with 8 bits of precision.
struct BFloat16 {
  KERAS_SPARSE_HOST_DEVICE static uint16_t Encode(float value) {
    const uint32_t bits = BitsOf(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40 : rounded);
  }
  KERAS_SPARSE_HOST_DEVICE static uint16_t EncodeRandomly(float value, uint32_t random) {
    const uint32_t bits = BitsOf(value);
    return static_cast<uint16_t>((value != value ? bits | 0x400000 : bits + random) >> 16);
  }
  KERAS_SPARSE_HOST_DEVICE static float Decode(uint16_t half) {
    return FloatOf(uint32_t{half} << 16);
  }
};

// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
struct Float16 {
  KERAS_SPARSE_HOST_DEVICE static uint16_t Encode(float value) {
    const uint32_t bits = BitsOf(value);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return QuietNaN(bits);
    if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds beyond 65504
    if (magnitude < 0x38800000) {                       // below 2^-14: a multiple of 2^-24
      // Adding 0.5 shifts the fraction so that it ends at multiples of 2^-24, and rounds.
      return sign | static_cast<uint16_t>(BitsOf(FloatOf(magnitude) + 0.5f) - BitsOf(0.5f));
    }
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return sign | static_cast<uint16_t>((rounded >> 13) - ((127 - 15) << 10));
  }
  KERAS_SPARSE_HOST_DEVICE static uint16_t EncodeRandomly(float value, uint32_t random) {
    return Truncate(Dithered(value, random));
  }
  // Returns a float that rounds towards zero to the result of EncodeRandomly. A finite float stays
  // finite unless it is nearer to 65536 than to 65504. Branchless, so that the compiler vectorizes
  // loops.
  KERAS_SPARSE_HOST_DEVICE static float Dithered(float value, uint32_t random) {
    const uint32_t bits = BitsOf(value);
    const uint32_t magnitude = bits & 0x7fffffff;
    const uint32_t fraction = random >> 3;  // 13 bits, as many as are cut off
    // Below 2^-14 the result is a multiple of 2^-24.
    const float small =
        FloatOf(magnitude) + static_cast<float>(static_cast<int32_t>(fraction)) * 0x1p-37f;
    const uint32_t finite = magnitude < 0x38800000 ? BitsOf(small) : magnitude + fraction;
    const uint32_t beyond = magnitude > 0x7f800000 ? magnitude : 0x7f800000;
    return FloatOf((bits & 0x80000000) | (magnitude < 0x477ff000 ? finite : beyond));
  }
  // Rounds towards zero.
  KERAS_SPARSE_HOST_DEVICE static uint16_t Truncate(float value) {
    const uint32_t bits = BitsOf(value);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return QuietNaN(bits);
    if (magnitude == 0x7f800000) return sign | 0x7c00;  // infinity
    if (magnitude >= 0x47800000) return sign | 0x7bff;  // 65504
    if (magnitude < 0x38800000) {
      return sign | static_cast<uint16_t>(static_cast<int32_t>(FloatOf(magnitude) * 0x1p24f));
    }
    return sign | static_cast<uint16_t>((magnitude >> 13) - ((127 - 15) << 10));
  }
  // Returns a NaN with the highest bits of another one, as processors' own conversions do.
  KERAS_SPARSE_HOST_DEVICE static uint16_t QuietNaN(uint32_t bits) {
    return static_cast<uint16_t>((bits >> 16 & 0x8000) | 0x7e00 | (bits >> 13 & 0x3ff));
  }
  KERAS_SPARSE_HOST_DEVICE static float Decode(uint16_t half) {
    const uint32_t sign = uint32_t{half & 0x8000u} << 16;
    const uint32_t magnitude = half & 0x7fff;
    if (magnitude >= 0x7c00) return FloatOf(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    // A number without a leading 1 is a multiple of 2^-24. No intermediate result is subnormal,
    // because the processor treats subnormals as zeros when TensorFlow calls.
    if (magnitude < 0x400) return FloatOf(sign | BitsOf(static_cast<float>(magnitude) * 0x1p-24f));
    return FloatOf(sign | ((magnitude << 13) + ((127 - 15) << 23)));
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_HALF_FLOATS_H_
