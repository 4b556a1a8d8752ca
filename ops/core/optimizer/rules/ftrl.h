// linear      += g + 2 * shrinkage * row
//                  - (new_accumulator^p - accumulator^p) / learning_rate * row
//     with new_accumulator = accumulator + g^2 and p = -learning_rate_power
// accumulator  = new_accumulator
// row          = (clip(linear, -l1, l1) - linear)
//                  / (accumulator^p / learning_rate + 2 * l2 + beta / learning_rate)
//
// Only rows with a gradient change. The row on the right of the first line is the row after weight
// decay.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_FTRL_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_FTRL_H_

#include "ops/core/base/host_device.h"
#include "ops/core/math/vector_functions.h"

namespace keras_sparse {

// Powers have exponent `power`, or 0.5 with kSqrt.
template <bool kSqrt>
struct FtrlElement {
  static constexpr int kSlots = 2;
  static constexpr int kRowSlots = 0;

  float inverse_rate;
  float decay;
  float power;
  float l1;
  float twice_l2;  // plus beta's term
  float twice_shrinkage;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* accumulator,
                                           float* linear) const {
    const float old = *row - decay * *row;
    const float new_accumulator = *accumulator + g * g;
    const float new_power = Power(new_accumulator);
    *linear += g + twice_shrinkage * old - (new_power - Power(*accumulator)) * inverse_rate * old;
    *accumulator = new_accumulator;
    const float clipped = Max(-l1, Min(l1, *linear));
    *row = (clipped - *linear) / (new_power * inverse_rate + twice_l2);
  }

 private:
  KERAS_SPARSE_HOST_DEVICE float Power(float x) const {
    if constexpr (kSqrt) {
      return Sqrt(x);
    } else {
      return Pow(x, power);
    }
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_FTRL_H_
