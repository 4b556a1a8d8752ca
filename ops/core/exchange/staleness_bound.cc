#include "ops/core/exchange/staleness_bound.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace keras_sparse {

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
  // A step, also where none of this rank's own tables is trained. The counts go around.
  uint32_t num_since = 1;
  for (size_t p = 0; p < lookup.num_updates.size(); ++p) {
    num_since = std::max(num_since, lookup.num_updates[p] - agreed_.num_updates[p]);
  }
  return staleness_ + num_since;
}

}  // namespace keras_sparse
