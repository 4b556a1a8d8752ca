#include "ops/core/exchange/staleness_bound.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace keras_sparse {

void StalenessBound::CountGradients() {
  std::lock_guard<std::mutex> lock(mutex_);
  ++num_gradients_;
}

int64_t StalenessBound::num_gradients() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return num_gradients_;
}

void StalenessBound::Agree(Lookup lookup, int64_t staleness) {
  std::lock_guard<std::mutex> lock(mutex_);
  is_known_ = true;
  agreed_ = std::move(lookup);
  staleness_ = staleness;
}

void StalenessBound::Forget() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_known_ = false;
}

int64_t StalenessBound::MostMissed(const Lookup& lookup) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool is_later = lookup.stage == agreed_.stage && lookup.round > agreed_.round;
  if (!is_known_ || !is_later) return -1;
  if (lookup.num_other_changes != agreed_.num_other_changes) return -1;
  int64_t num_own = 0;
  for (size_t p = 0; p < lookup.num_updates.size(); ++p) {
    num_own = std::max<int64_t>(num_own, lookup.num_updates[p] - agreed_.num_updates[p]);
  }
  // Own tables that are not trained do not tell how often those of other ranks were updated.
  return num_own < lookup.num_gradients - agreed_.num_gradients ? -1 : staleness_ + num_own;
}

}  // namespace keras_sparse
