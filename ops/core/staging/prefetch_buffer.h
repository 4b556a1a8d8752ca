// Where the lookups that a stage makes ready wait for their steps.
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

// What has become of the lookups of a table that were staged.
struct StagingCounts {
  int64_t staged = 0;         // lookups that a stage was given
  int64_t used = 0;           // of these, that a step has used
  int64_t missed = 0;         // lookups that had to be done in the step, since the first was staged
  int64_t dropped = 0;        // staged lookups that no step will use
  int64_t waited_ns = 0;      // nanoseconds that steps have waited for staged lookups
  int64_t hidden_ns = 0;      // that the used ones took and no step has waited for
  int64_t staleness_sum = 0;  // updates that the used rows had missed, over all used lookups
  int64_t staleness_max = 0;
};

// A table has one; it holds the lookups of which the table is the first.
//
// Thread safety: every method may be called from any thread.
class PrefetchBuffer {
 public:
  void Add(std::shared_ptr<StagedLookup> lookup);

  // Takes out the oldest lookup with a fingerprint. Null if there is none.
  std::shared_ptr<StagedLookup> Take(const Fingerprint& fingerprint);

  // Whether Take may find any. If not, that is a lookup missed.
  bool MayHaveAny();

  // Takes out one that is dropped; nothing if a step has taken it.
  void Remove(const StagedLookup* lookup);

  void CountMissed() { ++missed_; }
  void CountDropped() { ++dropped_; }
  void CountUsed(int64_t waited_ns, int64_t hidden_ns, int64_t staleness);
  StagingCounts counts() const;

 private:
  mutable Mutex mutex_;
  // The oldest first: a few batches' own.
  std::vector<std::shared_ptr<StagedLookup>> lookups_ GUARDED_BY(mutex_);
  std::atomic<int64_t> num_waiting_{0};  // their number
  std::atomic<int64_t> staged_{0};
  std::atomic<int64_t> missed_{0};
  std::atomic<int64_t> dropped_{0};
  StagingCounts used_ GUARDED_BY(mutex_);  // what is counted with the used ones
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STAGING_PREFETCH_BUFFER_H_
