// momentum += (g - momentum) * (1 - beta_1)
// velocity += (g^2 - velocity) * (1 - beta_2)
// row       -= decay * row + (alpha * momentum + gamma * g) / (sqrt(velocity) / bias + epsilon)
//
// The step passes bias = sqrt(1 - beta_2^step) and, with u_t = beta_1 * (1 - 0.96^t / 2) and U_t
// the product of u_1 to u_t,
//     alpha = learning_rate * u_(t+1) / (1 - U_(t+1))
//     gamma = learning_rate * (1 - u_t) / (1 - U_t)
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_NADAM_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_NADAM_H_

#include "ops/core/base/host_device.h"
#include "ops/core/optimizer/moves.h"

namespace keras_sparse {

struct NadamElement {
  static constexpr int kSlots = 2;
  static constexpr int kRowSlots = 0;

  float alpha;
  float gamma;
  float inverse_bias;
  float decay;
  float one_minus_beta_1;
  float one_minus_beta_2;
  float epsilon;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* momentum,
                                           float* velocity) const {
    *momentum += (g - *momentum) * one_minus_beta_1;
    *velocity += (g * g - *velocity) * one_minus_beta_2;
    *row -=
        decay * *row + (alpha * *momentum + gamma * g) / (Sqrt(*velocity) * inverse_bias + epsilon);
  }

  KERAS_SPARSE_HOST_DEVICE ScaledMoves<true> moves() const { return {epsilon}; }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_NADAM_H_
