// accumulated_grad  = rho * accumulated_grad + (1 - rho) * g^2
// delta             = sqrt(accumulated_delta + epsilon) * g / sqrt(accumulated_grad + epsilon)
// accumulated_delta = rho * accumulated_delta + (1 - rho) * delta^2
// row               -= decay * row + learning_rate * delta
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADADELTA_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADADELTA_H_

#include "ops/core/base/host_device.h"

namespace keras_sparse {

struct AdadeltaElement {
  static constexpr int kSlots = 2;
  static constexpr int kRowSlots = 0;

  float learning_rate;
  float decay;
  float rho;
  float one_minus_rho;
  float epsilon;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* accumulated_grad,
                                           float* accumulated_delta) const {
    *accumulated_grad = rho * *accumulated_grad + one_minus_rho * (g * g);
    const float delta = Sqrt(*accumulated_delta + epsilon) * g / Sqrt(*accumulated_grad + epsilon);
    *accumulated_delta = rho * *accumulated_delta + one_minus_rho * (delta * delta);
    *row -= decay * *row + learning_rate * delta;
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADADELTA_H_
