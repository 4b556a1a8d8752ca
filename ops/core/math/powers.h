// Integer powers of a number in [0, 1].
#ifndef KERAS_SPARSE_OPS_CORE_MATH_POWERS_H_
#define KERAS_SPARSE_OPS_CORE_MATH_POWERS_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace keras_sparse {

// Two look-ups and a product instead of a call of pow, which would cost as much as moving a row.
class Powers {
 public:
  explicit Powers(double base) : base_(base) {
    for (int64_t i = 0; i < kDigit; ++i) {
      low_[static_cast<size_t>(i)] = std::pow(base, i);
      high_[static_cast<size_t>(i)] = std::pow(base, i * kDigit);
    }
  }

  // REQUIRES: n >= 0
  double operator()(int64_t n) const {
    if (n >= kDigit * kDigit) return std::pow(base_, static_cast<double>(n));
    return low_[static_cast<size_t>(n % kDigit)] * high_[static_cast<size_t>(n / kDigit)];
  }

 private:
  static constexpr int64_t kDigit = 256;
  double base_;
  std::array<double, kDigit> low_;
  std::array<double, kDigit> high_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_POWERS_H_
