// velocity         = rho * velocity + (1 - rho) * g^2
// average_gradient = rho * average_gradient + (1 - rho) * g                      if centered
// increment        = learning_rate * g / sqrt(velocity - average_gradient^2 + epsilon)
// momentum         = mu * momentum + increment                                   if mu > 0
// row              -= decay * row + momentum                        or, without it, increment
//
// "rmsprop" has dense semantics; "lazy_rmsprop" changes only rows with a gradient.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_RMSPROP_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_RMSPROP_H_

#include <type_traits>

#include "ops/core/base/host_device.h"
#include "ops/core/optimizer/moves.h"

namespace keras_sparse {

// With momentum.
struct RmsPropColumns {
  MomentumColumns by_momentum;

  template <typename... Rest>
  KERAS_SPARSE_HOST_DEVICE float operator()(float row, float /*velocity*/, float momentum,
                                            Rest... /*rest*/) const {
    return by_momentum(row, momentum);
  }
};
struct RmsPropMoves {
  KERAS_SPARSE_HOST_DEVICE RmsPropColumns Of(const HistoryView& /*history*/,
                                             const Missed& missed) const {
    return {{missed.decay, missed.moves.total}};
  }
};

// The slots are velocity, momentum and average_gradient; the last two may be missing.
template <bool kMomentum, bool kCentered>
struct RmsPropElement {
  static constexpr int kSlots = 1 + (kMomentum ? 1 : 0) + (kCentered ? 1 : 0);
  static constexpr int kRowSlots = 0;

  float learning_rate;
  float decay;
  float rho;
  float one_minus_rho;
  float mu;
  float epsilon;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* velocity,
                                           float* second = nullptr, float* third = nullptr) const {
    *velocity = rho * *velocity + one_minus_rho * (g * g);
    float variance = *velocity;
    if constexpr (kCentered) {
      float* average_gradient = kMomentum ? third : second;
      *average_gradient = rho * *average_gradient + one_minus_rho * g;
      variance -= *average_gradient * *average_gradient;
    }
    float move = learning_rate * g / Sqrt(variance + epsilon);
    if constexpr (kMomentum) move = *second = mu * *second + move;
    *row -= decay * *row + move;
  }

  KERAS_SPARSE_HOST_DEVICE std::conditional_t<kMomentum, RmsPropMoves, DecayMoves> moves() const {
    return {};
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_RMSPROP_H_
