// row -= decay * row + learning_rate * g
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_SGD_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_SGD_H_

#include "ops/core/base/host_device.h"

namespace keras_sparse {

struct SgdElement {
  static constexpr int kSlots = 0;
  static constexpr int kRowSlots = 0;

  float learning_rate;
  float decay;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row) const {
    *row -= decay * *row + learning_rate * g;
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_SGD_H_
