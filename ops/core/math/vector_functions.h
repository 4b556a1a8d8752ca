// Functions of one number without a branch or a call, so that loops over them become vector code.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_VECTOR_FUNCTIONS_H_
#define KERAS_SPARSE_OPS_CORE_MATH_VECTOR_FUNCTIONS_H_

#include <cstdint>
#include <cstring>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

// -1, 0 or 1; of NaN itself, so that it shows.
KERAS_SPARSE_HOST_DEVICE inline float Sign(float x) {
  const float sign = static_cast<float>(x > 0) - static_cast<float>(x < 0);
  return x == x ? sign : x;
}

// The logarithm to base 2 of a normal float above zero, to 1e-8; exact for powers of two.
KERAS_SPARSE_HOST_DEVICE inline double Log2(float x) {
  // x = 2^exponent * mantissa, with a mantissa from sqrt(1/2) to sqrt(2).
  constexpr int32_t kSqrtHalf = 0x3F3504F3;
  constexpr int kMantissaBits = 23;
  int32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const int32_t exponent = (bits - kSqrtHalf) >> kMantissaBits;
  bits -= exponent * (1 << kMantissaBits);
  float mantissa;
  std::memcpy(&mantissa, &bits, sizeof(mantissa));
  // log(m) = 2 artanh(s) by its series, in which s is at most .172.
  const double m = static_cast<double>(mantissa);
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  const double series = 1 + s2 * (1.0 / 3 + s2 * (1.0 / 5 + s2 * (1.0 / 7 + s2 * (1.0 / 9))));
  constexpr double kTwoOverLog2 = 2.8853900817779268;
  return exponent + kTwoOverLog2 * s * series;
}

// e^x - 1, to 1e-9 of it, also for an x near zero; below -700 and above 700 as there.
KERAS_SPARSE_HOST_DEVICE inline double Expm1(double x) {
  x = x < -700 ? -700 : x;
  x = x > 700 ? 700 : x;
  // x = k log(2) + r. Beside this number a double has no room for a fraction, and its last bits are
  // those of k.
  constexpr double kRounder = 0x1.8p52;
  constexpr double kLog2 = 0.69314718055994531;
  const double rounded = x * (1 / kLog2) + kRounder;
  const double r = x - (rounded - kRounder) * kLog2;
  const double powers =
      r *
      (1 +
       r * (1.0 / 2 +
            r * (1.0 / 6 +
                 r * (1.0 / 24 +
                      r * (1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040 + r * (1.0 / 40320))))))));
  uint64_t bits;
  std::memcpy(&bits, &rounded, sizeof(bits));
  bits = (bits + 1023) << 52;
  double scale;  // 2^k
  std::memcpy(&scale, &bits, sizeof(scale));
  return scale * powers + (scale - 1);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_VECTOR_FUNCTIONS_H_
