// JoinedGradient: the gradients of several lookups of a table as those of one.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_JOINED_GRADIENT_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_JOINED_GRADIENT_H_

#include <cstdint>
#include <vector>

#include "ops/core/gradients/output_gradient.h"

namespace keras_sparse {

// A single gradient is referred to; several are copied, in their order. The factors of their ids
// stay the same to the bit, as weights of sums.
class JoinedGradient {
 public:
  // REQUIRES: at least one gradient, all of the same width and type; their bags' Check() returned
  // OK; their memory outlives this object
  explicit JoinedGradient(const std::vector<OutputGradient>& gradients);
  JoinedGradient(JoinedGradient&&) = default;

  const OutputGradient& gradient() const { return gradient_; }

 private:
  void Append(const OutputGradient& gradient, bool has_weights);

  std::vector<int64_t> ids_;
  std::vector<int64_t> row_splits_;
  std::vector<float> weights_;
  std::vector<char> grads_;
  OutputGradient gradient_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_JOINED_GRADIENT_H_
