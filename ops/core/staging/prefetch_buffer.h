// PrefetchBuffer: holds staged lookups until their steps use them.
#ifndef KERAS_SPARSE_OPS_CORE_STAGING_PREFETCH_BUFFER_H_
#define KERAS_SPARSE_OPS_CORE_STAGING_PREFETCH_BUFFER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/staging/fingerprint.h"

namespace keras_sparse {

class StagedLookup;

// Counts of a table's staged lookups.
struct StagingCounts {
  int64_t staged = 0;         // lookups handed to a stage
  int64_t used = 0;           // staged lookups that a step has used
  int64_t missed = 0;         // lookups done in the step since the first was staged
  int64_t dropped = 0;        // staged lookups that no step will use
  int64_t waited_ns = 0;      // nanoseconds that steps have waited for staged lookups
  int64_t hidden_ns = 0;      // nanoseconds of used lookups that no step has waited for
  int64_t staleness_sum = 0;  // updates that used rows had missed, summed over used lookups
  int64_t staleness_max = 0;
};

// Each table has one; it holds the lookups whose first table is this one.
//
// Thread safety: every method may be called from any thread.
class PrefetchBuffer {
 public:
  void Add(std::shared_ptr<StagedLookup> lookup);

  // Removes and returns the oldest lookup with a fingerprint; null if there is none.
  std::shared_ptr<StagedLookup> Take(const Fingerprint& fingerprint);

  // Returns whether Take may find any. If not, counts a missed lookup, provided that any was ever
  // staged.
  bool MayHaveAny();

  // Removes a dropped lookup; does nothing if a step has taken it.
  void Remove(const StagedLookup* lookup);

  void CountMissed() { ++missed_; }
  void CountDropped() { ++dropped_; }
  void CountUsed(int64_t waited_ns, int64_t hidden_ns, int64_t staleness);
  StagingCounts counts() const;

 private:
  mutable Mutex mutex_;
  // Oldest first: those of a few batches.
  std::vector<std::shared_ptr<StagedLookup>> lookups_ GUARDED_BY(mutex_);
  std::atomic<int64_t> num_waiting_{0};  // size of lookups_
  std::atomic<int64_t> staged_{0};
  std::atomic<int64_t> missed_{0};
  std::atomic<int64_t> dropped_{0};
  StagingCounts used_ GUARDED_BY(mutex_);  // counts of used lookups
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STAGING_PREFETCH_BUFFER_H_
