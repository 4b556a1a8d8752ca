#include "ops/core/gradients/partition_gradients.h"

#include <algorithm>
#include <cstddef>

namespace keras_sparse {
namespace {

// A core's second-level cache and part of its share of the third. On a Zen 5, with 1 MiB of
// second-level cache, scattered steps take a tenth to a quarter less time than gathered ones for
// sums of 0.8 to 2.1 MiB a table. They take a twelfth more for 4.2 MiB.
constexpr int64_t kMaxScatteredBytes = int64_t{2} << 20;
// Per id; the gradients of a very frequent id would evict the others from the cache.
constexpr int64_t kPrefetchedOccurrences = 8;

}  // namespace

void PartitionGradients::Find(const GradientSource& source, const int64_t* ids,
                              const uint32_t* names, int64_t n, int64_t num_rows, bool in_order) {
  source_ = &source;
  num_ids_ = n;
  groups_.Number(ids, n, num_rows);
  const int64_t num_sums = groups_.num_unique() * source.dim();
  scattered_ = in_order && 4 * num_sums <= kMaxScatteredBytes;
  if (scattered_) {
    source.Scatter(names, groups_.numbers(), n, groups_.num_unique(), &scattered_sums_);
  } else {
    groups_.Sort(names);
    sums_.resize(static_cast<size_t>(kBlockRows * source.dim()));
  }
}

const uint32_t* PartitionGradients::CountOccurrences() {
  occurrences_.assign(static_cast<size_t>(num_unique()), 0);
  for (int64_t i = 0; i < num_ids_; ++i) ++occurrences_[groups_.numbers()[i]];
  return occurrences_.data();
}

void PartitionGradients::Prefetch(int64_t u) const {
  if (scattered_) return;  // the sums are in the caches
  const int64_t n = std::min(groups_.num_occurrences(u), kPrefetchedOccurrences);
  for (int64_t i = 0; i < n; ++i) source_->Prefetch(groups_.occurrences(u)[i]);
}

void PartitionGradients::Get(const int64_t* uniques, int64_t n, const float** gradients) {
  const int64_t dim = source_->dim();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t u = uniques[i];
    if (scattered_) {
      gradients[i] = scattered_sums_.sums.data() + u * dim;
      continue;
    }
    const uint32_t* names = groups_.occurrences(u);
    const int64_t num_names = groups_.num_occurrences(u);
    gradients[i] = num_names == 1 ? source_->Find(names[0]) : nullptr;
    if (gradients[i] != nullptr) continue;
    float* sum = sums_.data() + i * dim;
    source_->Sum(names, num_names, sum);
    gradients[i] = sum;
  }
}

}  // namespace keras_sparse
