// PartitionGradients: the gradients of a step's distinct ids, part by part.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_PARTITION_GRADIENTS_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_PARTITION_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "ops/core/gradients/gradient_source.h"
#include "ops/core/ids/id_grouper.h"

namespace keras_sparse {

// The gradient of a distinct id is the sum of its occurrences' gradients. Two methods give the same
// bits:
//
// - Scattered: each gradient is added to the sum of its id. Gradients are read once and in order,
//   but the sums of all distinct ids are written at random, so they must stay in the processor's
//   caches.
// - Gathered: the occurrences of an id are found, and added when its gradient is requested.
//   Gradients are read at random, but an id that occurs once needs no sum.
//
// Meant to be reused by one thread, because it keeps its memory.
class PartitionGradients {
 public:
  //   ids       (n)
  //   names     (n) of these ids in `source`, which must outlive the use of this object; null means
  //             0, 1, 2, ...
  //   num_rows  see IdGrouper::Number
  //   in_order  whether these are all ids of the source, so that gradients are read in order
  void Find(const GradientSource& source, const int64_t* ids, const uint32_t* names, int64_t n,
            int64_t num_rows, bool in_order);

  int64_t num_unique() const { return groups_.num_unique(); }
  const int64_t* unique_ids() const { return groups_.unique_ids(); }

  // (num_unique) the number of occurrences of each distinct id, until the next Find.
  const uint32_t* CountOccurrences();

  // Prefetches the gradient of distinct id `u`.
  void Prefetch(int64_t u) const;

  // Returns pointers to the gradients of distinct ids, valid until the next call.
  //   uniques, gradients  (n), n <= kBlockRows
  void Get(const int64_t* uniques, int64_t n, const float** gradients);

 private:
  const GradientSource* source_ = nullptr;
  IdGrouper groups_;
  int64_t num_ids_ = 0;
  bool scattered_ = false;
  ScatteredSums scattered_sums_;       // of all distinct ids
  std::vector<float> sums_;            // gathered: of the ids of the last call
  std::vector<uint32_t> occurrences_;  // by number
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_PARTITION_GRADIENTS_H_
