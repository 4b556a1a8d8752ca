// accumulator += g^2
// row          -= decay * row + learning_rate * g / sqrt(accumulator + epsilon)
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAGRAD_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAGRAD_H_

#include "ops/core/base/host_device.h"

namespace keras_sparse {

struct AdagradElement {
  static constexpr int kSlots = 1;
  static constexpr int kRowSlots = 0;

  float learning_rate;
  float decay;
  float epsilon;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* accumulator) const {
    *accumulator += g * g;
    *row -= decay * *row + learning_rate * g / Sqrt(*accumulator + epsilon);
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAGRAD_H_
