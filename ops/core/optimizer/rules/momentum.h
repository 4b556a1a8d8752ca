// velocity = momentum * velocity - learning_rate * g
// row      += velocity - decay * row                                   or, with nesterov,
// row      += momentum * velocity - learning_rate * g - decay * row
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_MOMENTUM_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_MOMENTUM_H_

#include "ops/core/base/host_device.h"
#include "ops/core/optimizer/moves.h"

namespace keras_sparse {

struct MomentumMoves {
  KERAS_SPARSE_HOST_DEVICE MomentumColumns Of(const HistoryView& /*history*/,
                                              const Missed& missed) const {
    return {missed.decay, missed.moves.total};
  }
};

struct MomentumElement {
  static constexpr int kSlots = 1;
  static constexpr int kRowSlots = 0;

  float learning_rate;
  float decay;
  float momentum;
  bool nesterov;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* velocity) const {
    *velocity = momentum * *velocity - learning_rate * g;
    const float move = nesterov ? momentum * *velocity - learning_rate * g : *velocity;
    *row -= decay * *row - move;
  }

  KERAS_SPARSE_HOST_DEVICE MomentumMoves moves() const { return {}; }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_MOMENTUM_H_
