// row      -= decay * row + learning_rate * sign(beta_1 * momentum + (1 - beta_1) * g)
// momentum = beta_2 * momentum + (1 - beta_2) * g
//
// Without a gradient a row moves by the full learning rate at every step, until its momentum is too
// small for a float.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_LION_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_LION_H_

#include "ops/core/base/host_device.h"
#include "ops/core/math/vector_functions.h"

namespace keras_sparse {

struct LionElement {
  static constexpr int kSlots = 1;
  static constexpr int kRowSlots = 0;

  float learning_rate;
  float decay;
  float beta_1;
  float beta_2;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* momentum) const {
    const float direction = Sign(*momentum * beta_1 + g * (1 - beta_1));
    *row -= decay * *row + learning_rate * direction;
    *momentum = *momentum * beta_2 + g * (1 - beta_2);
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_LION_H_
