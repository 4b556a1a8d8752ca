// row      -= decay * row + learning_rate * sign(beta_1 * momentum + (1 - beta_1) * g)
// momentum = beta_2 * momentum + (1 - beta_2) * g
//
// Without a gradient a row moves by the full learning rate at every step, until its momentum is too
// small for a float.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_LION_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_LION_H_

#include <cstdint>

#include "ops/core/base/host_device.h"
#include "ops/core/math/vector_functions.h"
#include "ops/core/optimizer/history_view.h"
#include "ops/core/optimizer/prefix_sums.h"

namespace keras_sparse {

// A column moves until its momentum is too small for a float; usually no column reaches this in
// these steps.
//   kDecays  whether the rule has weight decay
template <bool kDecays>
struct LionColumns {
  float decay;
  float moves;  // of all steps
  float least;  // a smaller momentum is too small for a float in the last of the steps
  float beta_1;
  double log_beta_2;
  int64_t from;
  int64_t to;
  double kept;  // the part of the row that weight decay leaves in all steps
  double weight_decay;
  PrefixSums::View
      sums;  // of learning rates or, with weight decay, of the logarithms of the parts it leaves

  KERAS_SPARSE_HOST_DEVICE bool IsUsual(float /*row*/, float momentum) const {
    const int stops = static_cast<int>(momentum != 0) & static_cast<int>(Abs(momentum) < least);
    return stops == 0;
  }
  KERAS_SPARSE_HOST_DEVICE float operator()(float row, float momentum) const {
    return row - (decay * row + moves * Sign(momentum));
  }

  // Returns the last step in which the momentum counts.
  KERAS_SPARSE_HOST_DEVICE int64_t Find(float row, float momentum) const {
    constexpr double kHalvings = 126;  // from one to the smallest float
    constexpr int64_t kMostSteps = 0x7FFFFFFF;
    const auto all_steps = static_cast<double>(to - from < kMostSteps ? to - from : kMostSteps);
    // A momentum counts once more than it shrinks on its way to the smallest float. With a beta of
    // one it never stops.
    const double least_steps = log_beta_2 == 0 ? all_steps : 1;
    const double steps_a_halving = log_beta_2 == 0 ? 0 : -kLog2 / log_beta_2;
    const float first = Abs(momentum) * beta_1;
    double steps = least_steps + floor((Log2(first) + kHalvings) * steps_a_halving);
    steps = steps < all_steps ? steps : all_steps;
    steps = first < kLeastFloat ? 0 : steps;
    const int64_t stop = from + static_cast<int32_t>(steps);
    return IsUsual(row, momentum) ? to : stop;
  }
  KERAS_SPARSE_HOST_DEVICE float Found(int64_t stop, float row, float momentum) const {
    const auto moves_until_stop = static_cast<float>(MovesUntil(stop));
    return row - (decay * row + moves_until_stop * Sign(momentum));
  }

  // Returns the sum of the learning rates of the steps up to `stop`, each reduced by later weight
  // decay.
  KERAS_SPARSE_HOST_DEVICE double MovesUntil(int64_t stop) const {
    const double sum = sums.Between(from, stop);
    if constexpr (!kDecays) return sum;
    const double until_stop = Expm1(sum);
    return -until_stop / weight_decay * (kept / (1 + until_stop));
  }
};

template <bool kDecays>
struct LionMoves {
  float beta_1;
  double log_beta_2;

  KERAS_SPARSE_HOST_DEVICE LionColumns<kDecays> Of(const HistoryView& history,
                                                   const Missed& missed) const {
    LionColumns<kDecays> columns = {};
    columns.decay = missed.decay;
    columns.least = LeastMomentum(missed.to - missed.from);
    columns.beta_1 = beta_1;
    columns.log_beta_2 = log_beta_2;
    columns.from = missed.from;
    columns.to = missed.to;
    if constexpr (kDecays) columns.kept = 1 + Expm1(history.LogKeep(missed.from, missed.to));
    columns.weight_decay = history.weight_decay;
    columns.sums = kDecays ? history.log_keep : history.rates;
    columns.moves = static_cast<float>(columns.MovesUntil(missed.to));
    return columns;
  }

 private:
  KERAS_SPARSE_HOST_DEVICE float LeastMomentum(int64_t steps) const {
    constexpr auto kMost = static_cast<double>(kGreatestFloat);
    const double shrunk =
        static_cast<double>(beta_1) * Exp(static_cast<double>(steps - 1) * log_beta_2);
    const double least = static_cast<double>(kLeastFloat) / shrunk;
    return static_cast<float>(least > kMost ? kMost : least);
  }
};

template <bool kDecays>
struct LionElement {
  static constexpr int kSlots = 1;
  static constexpr int kRowSlots = 0;

  float learning_rate;
  float decay;
  float beta_1;
  float beta_2;
  double log_beta_2;

  KERAS_SPARSE_HOST_DEVICE void operator()(float g, float* row, float* momentum) const {
    const float direction = Sign(*momentum * beta_1 + g * (1 - beta_1));
    *row -= decay * *row + learning_rate * direction;
    *momentum = *momentum * beta_2 + g * (1 - beta_2);
  }

  KERAS_SPARSE_HOST_DEVICE LionMoves<kDecays> moves() const { return {beta_1, log_beta_2}; }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_LION_H_
