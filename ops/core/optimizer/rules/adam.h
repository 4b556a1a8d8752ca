// momentum += (g - momentum) * (1 - beta_1)
// velocity += (g^2 - velocity) * (1 - beta_2)
// row       -= decay * row + alpha * momentum / (sqrt(velocity) + epsilon)
//
// alpha = learning_rate * sqrt(1 - beta_2^step) / (1 - beta_1^step) is passed with the step. "adam"
// has dense semantics; "lazy_adam" changes only rows with a gradient.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAM_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAM_H_

#include "ops/core/base/host_device.h"
#include "ops/core/optimizer/moves.h"

namespace keras_sparse {

struct AdamElement {
  static constexpr int kSlots = 2;
  static constexpr int kRowSlots = 0;

  float alpha;
  float decay;
  float one_minus_beta_1;
  float one_minus_beta_2;
  float epsilon;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* momentum,
                                           float* velocity) const {
    *momentum += (g - *momentum) * one_minus_beta_1;
    *velocity += (g * g - *velocity) * one_minus_beta_2;
    *row -= decay * *row + alpha * *momentum / (Sqrt(*velocity) + epsilon);
  }

  KERAS_SPARSE_HOST_DEVICE ScaledMoves<true> moves() const { return {epsilon}; }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAM_H_
