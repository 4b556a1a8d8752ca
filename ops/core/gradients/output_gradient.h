// OutputGradient: the input of a lookup's backward pass.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_OUTPUT_GRADIENT_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_OUTPUT_GRADIENT_H_

#include <cstdint>

#include "ops/core/ids/bags.h"
#include "ops/core/math/strided_rows.h"

namespace keras_sparse {

// The initial value of a sum of a row's gradients: adding any number to it returns that number. So
// a lone zero keeps its sign, whatever its factor and whatever is summed beside it.
constexpr float kEmptySum = -0.0f;

// A sum of a row's gradients adds up to so many in input order, to kEmptySum. It divides more of
// them into runs of so many, of which the last may be shorter, and adds the sums of the runs by the
// same definition. So a GPU can sum all runs of a frequent row at once, with the bits of a CPU.
constexpr int64_t kGradientsPerRun = 256;

// The gradient of a lookup's output.
struct OutputGradient {
  const int64_t* ids;  // (bags.num_ids)
  Bags bags;
  GradientRows grads;  // (bags.num_bags, dim)
  int64_t dim;
  int64_t max_entries = 1;  // per id, after merging: see DistinctIds
};

// Returns whether the gradient of a bag is that of each of its ids.
inline bool CountsOnce(const Bags& bags) {
  return bags.combiner == Combiner::kNone ||
         (bags.combiner == Combiner::kSum && bags.weights == nullptr && bags.scales == nullptr);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_OUTPUT_GRADIENT_H_
