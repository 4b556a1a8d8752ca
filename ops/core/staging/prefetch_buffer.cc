#include "ops/core/staging/prefetch_buffer.h"

#include <algorithm>
#include <utility>

#include "ops/core/staging/lookup_prefetcher.h"

namespace keras_sparse {

void PrefetchBuffer::Add(std::shared_ptr<StagedLookup> lookup) {
  const MutexLock lock(mutex_);
  lookups_.push_back(std::move(lookup));
  ++num_waiting_;
  ++staged_;
}

bool PrefetchBuffer::MayHaveAny() {
  if (num_waiting_ > 0) return true;
  if (staged_ > 0) CountMissed();
  return false;
}

std::shared_ptr<StagedLookup> PrefetchBuffer::Take(const Fingerprint& fingerprint) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(lookups_.begin(), lookups_.end(), [&](const auto& each) {
    return each->fingerprint() == fingerprint;
  });
  if (found == lookups_.end()) return nullptr;
  std::shared_ptr<StagedLookup> lookup = std::move(*found);
  lookups_.erase(found);
  --num_waiting_;
  return lookup;
}

void PrefetchBuffer::Remove(const StagedLookup* lookup) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(lookups_.begin(), lookups_.end(),
                                  [&](const auto& each) { return each.get() == lookup; });
  if (found == lookups_.end()) return;
  lookups_.erase(found);
  --num_waiting_;
}

void PrefetchBuffer::CountUsed(int64_t waited_ns, int64_t hidden_ns, int64_t staleness) {
  const MutexLock lock(mutex_);
  ++used_.used;
  used_.waited_ns += waited_ns;
  used_.hidden_ns += hidden_ns;
  used_.staleness_sum += staleness;
  used_.staleness_max = std::max(used_.staleness_max, staleness);
}

StagingCounts PrefetchBuffer::counts() const {
  const MutexLock lock(mutex_);
  StagingCounts counts = used_;
  counts.staged = staged_;
  counts.missed = missed_;
  counts.dropped = dropped_;
  return counts;
}

}  // namespace keras_sparse
