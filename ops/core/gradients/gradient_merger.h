// GradientMerger: merges gradients, one gradient sum per distinct id, in its first entry.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_GRADIENT_MERGER_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_GRADIENT_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/gradients/output_gradient.h"
#include "ops/core/ids/distinct_ids.h"

namespace keras_sparse {

class GradientSource;

// An id of a table that counts occurrences has several entries (see DistinctIds): its first one has
// the sum, the others kEmptySum. So the sum over all entries has the same bits, and the same norm.
// A separate count would get lost: TensorFlow, which sums the gradients of a table's lookups, and
// training loops that clip or scale gradients pass on only ids and values.
//
// Merges the gradients of many lookups in three steps, so that the caller can allocate the result
// once its size is known. Uses no lock, no atomic and no sum whose order depends on threads: each
// part of the keys belongs to one thread, which adds an id's gradients in a fixed order.
class GradientMerger {
 public:
  GradientMerger();
  ~GradientMerger();

  // Finds the distinct ids. The buffers of gradients must outlive the merger.
  static Status Create(const std::vector<OutputGradient>& gradients, Executor* executor,
                       std::unique_ptr<GradientMerger>* merger);

  int64_t num_entries(size_t gradient) const;

  // The destination of one gradient's result.
  //   ids     (num_entries)
  //   values  (num_entries, dim): the derivative of the loss by the row of each id
  struct Result {
    int64_t* ids;
    float* values;
  };
  void Write(const std::vector<Result>& results, Executor* executor) const;

 private:
  std::vector<OutputGradient> gradients_;
  std::vector<GradientSource> sources_;
  std::unique_ptr<DistinctIds> ids_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_GRADIENT_MERGER_H_
