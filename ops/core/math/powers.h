// Powers: integer powers of a number in [0, 1].
#ifndef KERAS_SPARSE_OPS_CORE_MATH_POWERS_H_
#define KERAS_SPARSE_OPS_CORE_MATH_POWERS_H_

#include <cstdint>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

// Looks up the digits of the exponent and multiplies. A call of pow would cost as much as moving a
// row, and its last bits depend on the library. Stores plain numbers, which can be copied to a GPU.
class Powers {
 public:
  explicit Powers(double base) {
    Pair unit = {base, 0};  // base^(kDigit^i)
    for (auto& powers : digits_) {
      Pair power = {1, 0};
      for (double& each : powers) {
        each = power.high;
        power = Product(power, unit);
      }
      unit = power;
    }
  }

  // REQUIRES: 0 <= n < 2^32
  KERAS_SPARSE_HOST_DEVICE double operator()(int64_t n) const {
    const double power = Digit<0>(n) * Digit<1>(n);
    return n < kDigit * kDigit ? power : power * (Digit<2>(n) * Digit<3>(n));
  }

 private:
  static constexpr int64_t kDigit = 256;

  // high + low, with twice the digits of a double, so that the stored powers are exact to the last
  // bit.
  struct Pair {
    double high;
    double low;
  };
  // Returns the first half of the digits.
  static double UpperHalf(double x) {
    const double shifted = x * 0x1.0000002p27;  // 2^27 + 1
    return shifted - (shifted - x);
  }
  // Multiplies two numbers in [0, 1], by Dekker, "A floating-point technique for extending the
  // available precision" (1971).
  static Pair Product(Pair a, Pair b) {
    const double a_upper = UpperHalf(a.high);
    const double b_upper = UpperHalf(b.high);
    const double a_rest = a.high - a_upper;
    const double b_rest = b.high - b_upper;
    const double product = a.high * b.high;
    double lost = a_upper * b_upper - product;
    lost = lost + a_upper * b_rest + a_rest * b_upper + a_rest * b_rest;
    lost += a.high * b.low + a.low * b.high;
    const double high = product + lost;
    return {high, lost - (high - product)};
  }

  template <int kPlace>
  KERAS_SPARSE_HOST_DEVICE double Digit(int64_t n) const {
    return digits_[kPlace][(n >> (8 * kPlace)) % kDigit];
  }

  double digits_[4][kDigit];
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_POWERS_H_
