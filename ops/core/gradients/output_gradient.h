// What the backward pass of a lookup gets.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_OUTPUT_GRADIENT_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_OUTPUT_GRADIENT_H_

#include <cstdint>

#include "ops/core/ids/bags.h"

namespace keras_sparse {

// The gradient of a lookup's output.
struct OutputGradient {
  const int64_t* ids;  // (bags.num_ids)
  Bags bags;
  const float* grads;  // (bags.num_bags, dim), `row_stride` apart
  int64_t dim;
  int64_t row_stride = 0;  // floats from one of `grads` to the next; 0: dim

  int64_t stride() const { return row_stride > 0 ? row_stride : dim; }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_OUTPUT_GRADIENT_H_
