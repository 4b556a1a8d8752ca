// accumulator  = max(accumulator * decay_rate^k, initial_accumulator)
// accumulator += g^2
// row          -= decay * row + learning_rate * g / sqrt(accumulator + epsilon)
//
// k is the number of decays of all accumulators since the row's last gradient. Each step passes the
// number of decays since the first step, and a row stores its own count. Only rows with a gradient
// change.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAGRAD_DECAY_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAGRAD_DECAY_H_

#include "ops/core/base/host_device.h"
#include "ops/core/math/vector_functions.h"
#include "ops/core/optimizer/rules/adagrad.h"

namespace keras_sparse {

// An element whose accumulator decays first.
struct DecayedAdagradElement {
  AdagradElement adagrad;
  float factor;
  float floor;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* accumulator) const {
    *accumulator = Max(*accumulator * factor, floor);
    adagrad(g, row, accumulator);
  }
};

struct AdagradDecayElement {
  static constexpr int kSlots = 1;
  static constexpr int kRowSlots = 1;

  AdagradElement adagrad;
  float num_decays;
  float floor;
  double log_decay_rate;

  template <typename MeanSquare>
  KERAS_SPARSE_HOST_DEVICE DecayedAdagradElement OfRow(const MeanSquare& /*mean_square*/,
                                                       float* row_num_decays) const {
    const float missed = num_decays - *row_num_decays;
    if (!(missed > 0)) return {adagrad, 1, static_cast<float>(-kInfinity)};
    *row_num_decays = num_decays;
    const double factor = Exp(log_decay_rate * static_cast<double>(missed));
    return {adagrad, static_cast<float>(factor), floor};
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ADAGRAD_DECAY_H_
