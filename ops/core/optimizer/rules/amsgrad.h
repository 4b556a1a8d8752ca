// momentum    += (g - momentum) * (1 - beta_1)
// velocity    += (g^2 - velocity) * (1 - beta_2)
// velocity_hat = max(velocity_hat, velocity)
// row          -= decay * row + alpha * momentum / (sqrt(velocity_hat) + epsilon)
//
// alpha = learning_rate * sqrt(1 - beta_2^step) / (1 - beta_1^step) is passed with the step.
// Without a gradient velocity only shrinks and velocity_hat stays, so missed moves are a geometric
// sum.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_AMSGRAD_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_AMSGRAD_H_

#include "ops/core/base/host_device.h"
#include "ops/core/optimizer/moves.h"

namespace keras_sparse {

struct AmsgradColumns {
  float decay;
  float moves;
  float epsilon;

  KERAS_SPARSE_HOST_DEVICE float operator()(float row, float momentum, float /*velocity*/,
                                            float velocity_hat) const {
    return row - (decay * row + moves * momentum / (Sqrt(velocity_hat) + epsilon));
  }
};
struct AmsgradMoves {
  float epsilon;

  KERAS_SPARSE_HOST_DEVICE AmsgradColumns Of(const HistoryView& /*history*/,
                                             const Missed& missed) const {
    return {missed.decay, missed.moves.total, epsilon};
  }
};

struct AmsgradElement {
  static constexpr int kSlots = 3;
  static constexpr int kRowSlots = 0;

  float alpha;
  float decay;
  float one_minus_beta_1;
  float one_minus_beta_2;
  float epsilon;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* momentum, float* velocity,
                                           float* velocity_hat) const {
    *momentum += (g - *momentum) * one_minus_beta_1;
    *velocity += (g * g - *velocity) * one_minus_beta_2;
    *velocity_hat = Max(*velocity_hat, *velocity);
    *row -= decay * *row + alpha * *momentum / (Sqrt(*velocity_hat) + epsilon);
  }

  KERAS_SPARSE_HOST_DEVICE AmsgradMoves moves() const { return {epsilon}; }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_AMSGRAD_H_
