// Bags: ragged lists of ids that a combiner pools into one vector each.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_BAGS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_BAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/base/host_device.h"
#include "ops/core/base/status.h"

namespace keras_sparse {

// With w the weights of a bag's ids (ones if there are none) and r their rows:
//   kSum   sum(w * r)
//   kMean  sum(w * r) / sum(w)
//   kSqrtN sum(w * r) / sqrt(sum(w * w))
// An empty bag, or one whose divisor is 0, returns zeros. kNone does not pool.
enum class Combiner { kNone, kSum, kMean, kSqrtN };

Status ParseCombiner(const std::string& name, Combiner* combiner);

struct Bags {
  Combiner combiner = Combiner::kNone;
  int64_t num_ids = 0;
  int64_t num_bags = 0;                 // with kNone: num_ids
  const int64_t* row_splits = nullptr;  // (num_bags + 1); bag b has ids [splits[b], splits[b + 1])
  const float* weights = nullptr;       // (num_ids) or null
  // (num_bags) the results of Scale, if they depend on more than these bags; else null.
  const float* scales = nullptr;

  // Returns InvalidArgument unless the splits rise from 0 to num_ids, and num_ids and num_bags are
  // below 2^32.
  Status Check() const;
  // As Check, without reading the splits, which may be in a GPU's memory.
  Status CheckSizes() const;

  // Returns the factor of the pooled sum of bag b.
  KERAS_SPARSE_HOST_DEVICE float Scale(int64_t bag) const {
    if (scales != nullptr) return scales[bag];
    if (combiner == Combiner::kNone || combiner == Combiner::kSum) return 1;
    const int64_t begin = row_splits[bag];
    const int64_t end = row_splits[bag + 1];
    float total = weights == nullptr ? static_cast<float>(end - begin) : 0;
    if (weights != nullptr) {
      for (int64_t i = begin; i < end; ++i) {
        total += combiner == Combiner::kMean ? weights[i] : weights[i] * weights[i];
      }
    }
    if (total == 0) return 0;
    return 1 / (combiner == Combiner::kMean ? total : Sqrt(total));
  }

  // Computes the gradient with respect to the weights of the ids of bags [first_bag, last_bag).
  //   grads  (num_ids) each id's product of its row and the gradient of its bag's output; in place
  KERAS_SPARSE_HOST_DEVICE void FinishWeightsGradient(int64_t first_bag, int64_t last_bag,
                                                      float* grads) const {
    if (combiner == Combiner::kSum) return;
    // The divisor's share: with s the scale and p = sum(w * product) * s, the product of the output
    // and its gradient, d/dw_i is s * (product_i - p) for the mean and s * (product_i - p * s *
    // w_i) for sqrtn.
    for (int64_t b = first_bag; b < last_bag; ++b) {
      const float scale = Scale(b);
      float output_product = 0;
      for (int64_t i = row_splits[b]; i < row_splits[b + 1]; ++i) {
        output_product += weights[i] * grads[i];
      }
      output_product *= scale;
      for (int64_t i = row_splits[b]; i < row_splits[b + 1]; ++i) {
        const float share = combiner == Combiner::kMean ? 1 : scale * weights[i];
        grads[i] = scale * (grads[i] - output_product * share);
      }
    }
  }
};

// Divides the bags into runs of similar work: run i is [cuts[i], cuts[i + 1]).
std::vector<int64_t> CutBags(const Bags& bags, int64_t ids_per_run);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_BAGS_H_
