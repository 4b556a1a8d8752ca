// accumulator += mean of g^2 over the row
// row          -= decay * row + learning_rate * g / sqrt(accumulator + epsilon)
//
// One accumulator per row. Only rows with a gradient change, also by weight decay.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ROW_WISE_ADAGRAD_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ROW_WISE_ADAGRAD_H_

#include "ops/core/base/host_device.h"
#include "ops/core/optimizer/rules/sgd.h"

namespace keras_sparse {

struct RowWiseAdagradElement {
  static constexpr int kSlots = 0;
  static constexpr int kRowSlots = 1;

  float learning_rate;
  float decay;
  float epsilon;

  template <typename MeanSquare>
  KERAS_SPARSE_HOST_DEVICE SgdElement OfRow(const MeanSquare& mean_square,
                                            float* accumulator) const {
    *accumulator += mean_square();
    return {learning_rate / Sqrt(*accumulator + epsilon), decay};
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_RULES_ROW_WISE_ADAGRAD_H_
