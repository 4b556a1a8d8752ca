// What the backward pass of a lookup gets.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_OUTPUT_GRADIENT_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_OUTPUT_GRADIENT_H_

#include <cstdint>

#include "ops/core/ids/bags.h"
#include "ops/core/math/strided_rows.h"

namespace keras_sparse {

// What the sum of a row's gradients begins with: added to it, every number stays what it is. So a
// zero alone keeps its sign, whatever it is multiplied with and whatever is summed beside it.
constexpr float kEmptySum = -0.0f;

// The gradient of a lookup's output.
struct OutputGradient {
  const int64_t* ids;  // (bags.num_ids)
  Bags bags;
  GradientRows grads;  // (bags.num_bags, dim)
  int64_t dim;
  int64_t max_entries = 1;  // of an id, once they are merged: see DistinctIds
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_OUTPUT_GRADIENT_H_
