// Functions of one number without a branch or a call, so that the compiler vectorizes loops over
// them. They use only operations that IEEE 754 defines to the last bit, in a fixed order: the same
// bits from any processor, compiler and standard library, and from a GPU.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_VECTOR_FUNCTIONS_H_
#define KERAS_SPARSE_OPS_CORE_MATH_VECTOR_FUNCTIONS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

// Returns -1, 0 or 1; NaN for NaN, so that it is noticed.
KERAS_SPARSE_HOST_DEVICE inline float Sign(float x) {
  const float sign = static_cast<float>(x > 0) - static_cast<float>(x < 0);
  return x == x ? sign : x;
}

KERAS_SPARSE_HOST_DEVICE inline uint64_t ToBits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
KERAS_SPARSE_HOST_DEVICE inline double FromBits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

// Returns coefficients[0] + coefficients[1] * x + ...; sums even and odd powers separately, so that
// a processor has two sums to work on.
template <size_t kSize>
KERAS_SPARSE_HOST_DEVICE inline double Series(const double (&coefficients)[kSize], double x) {
  const double x2 = x * x;
  double even = coefficients[(kSize - 1) / 2 * 2];
  double odd = coefficients[(kSize - 2) / 2 * 2 + 1];
  for (size_t i = (kSize - 1) / 2; i-- > 0;) even = even * x2 + coefficients[2 * i];
  for (size_t i = (kSize - 2) / 2; i-- > 0;) odd = odd * x2 + coefficients[2 * i + 1];
  return even + odd * x;
}

constexpr double kLog2 = 0.69314718055994531;
// In two parts. The first ends in zeros, so that its product with an exponent is exact.
constexpr double kLog2High = 0x1.62e42feep-1;
constexpr double kLog2Low = 0x1.a39ef35793c76p-33;
// Added to this number, a double has no room for a fraction, and its last bits are those of the
// sum.
constexpr double kRounder = 0x1.8p52;

// x = 2^exponent * (1 + fraction), where 1 + fraction is in sqrt(1/2) to sqrt(2).
struct SplitNumber {
  double exponent;
  double fraction;
};
// REQUIRES: x is normal and above zero; else the parts are finite and meaningless
KERAS_SPARSE_HOST_DEVICE inline SplitNumber Split(double x) {
  constexpr uint64_t kOne = 0x3FF0000000000000;
  constexpr uint64_t kSqrtHalf = 0x3FE6A09E667F3BCD;
  constexpr uint64_t kMantissa = 0x000FFFFFFFFFFFFF;
  constexpr uint64_t kTwoTo52 = 0x4330000000000000;  // its last bits are those of a sum, too
  const uint64_t bits = ToBits(x) + (kOne - kSqrtHalf);
  return {FromBits((bits >> 52) | kTwoTo52) - (0x1p52 + 1023),
          FromBits((bits & kMantissa) + kSqrtHalf) - 1};
}

// Returns 2^k.
// REQUIRES: rounded is kRounder + k, and -1023 < k < 1024
KERAS_SPARSE_HOST_DEVICE inline double PowerOfTwo(double rounded) {
  return FromBits((ToBits(rounded) + 1023) << 52);
}

// Returns the natural logarithm, within a unit in the last place; -infinity for zero, and NaN below
// zero.
KERAS_SPARSE_HOST_DEVICE inline double Log(double x) {
  // log((1 + s) / (1 - s)) = 2 s + 2/3 s^3 + ..., where s is at most .172. These coefficients have
  // the smallest error there for their number.
  constexpr double kSeries[] = {0.666666666666667,   0.39999999999898944, 0.2857142862620096,
                                0.22222211101577205, 0.1818289133623783,  0.1533165379922582,
                                0.14617229114009048};
  const bool is_tiny = x < kLeastDouble;
  const SplitNumber split = Split(is_tiny ? x * 0x1p54 : x);
  const double exponent = split.exponent - (is_tiny ? 54 : 0);
  const double f = split.fraction;
  const double s = f / (2 + f);
  const double s2 = s * s;
  const double half = 0.5 * f * f;
  // 2 s is f - s f, and s f is half - s half: so f, which is exact, stands alone.
  const double tail = s * (half + s2 * Series(kSeries, s2));
  const double log = exponent * kLog2High - ((half - (tail + exponent * kLog2Low)) - f);
  const double at_end = x == 0 ? -kInfinity : kNan;
  return x > 0 ? (x < kInfinity ? log : x) : at_end;
}

// Returns log(1 + x), accurate also for x near zero.
KERAS_SPARSE_HOST_DEVICE inline double Log1p(double x) {
  const double sum = 1 + x;
  const double lost = (x - (sum - 1)) / sum;
  const double log = Log(sum);
  return sum > 0 && sum < kInfinity ? log + lost : log;
}

// Returns the logarithm to base 2 of a normal float above zero, to 3e-10; exact for powers of two.
KERAS_SPARSE_HOST_DEVICE inline double Log2(float x) {
  // 2 / log(2) artanh(s): coefficients with the smallest error for s up to .172.
  constexpr double kSeries[] = {2.8853900817779268, 0.961798858537073, 0.576697191018319,
                                0.4322497743002932};
  const SplitNumber split = Split(static_cast<double>(x));
  const double s = split.fraction / (2 + split.fraction);
  return split.exponent + s * Series(kSeries, s * s);
}

// e^x is 2^k + 2^k * rest.
struct SplitPower {
  double rounded;  // kRounder + k
  double rest;
};
KERAS_SPARSE_HOST_DEVICE inline SplitPower SplitExp(double x) {
  // (e^r - 1 - r) / r^2 = 1/2 + r/6 + ..., with coefficients chosen as above.
  constexpr double kSeries[] = {
      0.5000000000000001,    0.1666666666666667,     0.04166666666662412,    0.008333333333326134,
      0.0013888888917215586, 0.00019841269874822307, 2.4801521293463862e-05, 2.755725539833871e-06,
      2.762008948195459e-07, 2.5105217695684516e-08};
  // x = k log(2) + high - low, where high - low is at most half of log(2).
  const double rounded = x * (1 / kLog2) + kRounder;
  const double k = rounded - kRounder;
  const double high = x - k * kLog2High;
  const double low = k * kLog2Low;
  const double r = high - low;
  return {rounded, high - (low - r * r * Series(kSeries, r))};
}
// Returns e^x, within a unit in the last place; infinity and zero beyond the range of a double.
KERAS_SPARSE_HOST_DEVICE inline double Exp(double x) {
  x = x < -746 ? -746 : x;
  x = x > 710 ? 710 : x;
  const SplitPower split = SplitExp(x);
  // In two steps, because 2^k itself may exceed a double.
  const double k = split.rounded - kRounder;
  const double half = k * 0.5 + kRounder;
  const double other_half = k - (half - kRounder) + kRounder;
  return (1 + split.rest) * PowerOfTwo(half) * PowerOfTwo(other_half);
}

// Returns e^x - 1, accurate also for x near zero, within two units in the last place; x is clamped
// to [-700, 700].
KERAS_SPARSE_HOST_DEVICE inline double Expm1(double x) {
  x = x < -700 ? -700 : x;
  x = x > 700 ? 700 : x;
  const SplitPower split = SplitExp(x);
  const double scale = PowerOfTwo(split.rounded);
  return scale * split.rest + (scale - 1);
}

// Returns x^power, with a relative error of 1e-8 while the result is a float, for power and x not
// below zero; infinity and NaN stay.
KERAS_SPARSE_HOST_DEVICE inline float Pow(float x, float power) {
  // 2^r, with the smallest error for r from -1/2 to 1/2.
  constexpr double kSeries[] = {1,
                                0.6931472062883387,
                                0.24022651332449982,
                                0.055503277426025975,
                                0.00961800540965173,
                                0.0013400283109502669,
                                0.0001547589818544626};
  // Where powers are far beyond floats, but still doubles. Depends on the power, because with a
  // constant compilers would create branches.
  const double farthest = 1000 / (static_cast<double>(power) + 1e-300);
  double log2 = Log2(x);
  log2 = log2 < -farthest ? -farthest : log2;
  log2 = log2 > farthest ? farthest : log2;
  log2 = static_cast<double>(x) > 0 ? log2 : -farthest;
  const double exponent = static_cast<double>(power) * log2;
  const double rounded = exponent + kRounder;
  const double r = exponent - (rounded - kRounder);
  const auto value = static_cast<float>(PowerOfTwo(rounded) * Series(kSeries, r));
  return x <= kGreatestFloat ? value : x;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_VECTOR_FUNCTIONS_H_
