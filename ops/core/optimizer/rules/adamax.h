// momentum += (g - momentum) * (1 - beta_1)
// norm      = max(beta_2 * norm, |g|)
// row       -= decay * row + alpha * momentum / (norm + epsilon)
//
// alpha = learning_rate / (1 - beta_1^step) is passed with the step.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAMAX_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAMAX_H_

#include "ops/core/base/host_device.h"
#include "ops/core/optimizer/moves.h"

namespace keras_sparse {

struct AdamaxElement {
  static constexpr int kSlots = 2;
  static constexpr int kRowSlots = 0;

  float alpha;
  float decay;
  float one_minus_beta_1;
  float beta_2;
  float epsilon;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* momentum,
                                           float* norm) const {
    *momentum += (g - *momentum) * one_minus_beta_1;
    *norm = Max(beta_2 * *norm, Abs(g));
    *row -= decay * *row + alpha * *momentum / (*norm + epsilon);
  }

  KERAS_SPARSE_HOST_DEVICE ScaledMoves<false> moves() const { return {epsilon}; }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAMAX_H_
