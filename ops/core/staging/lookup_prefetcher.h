// LookupPrefetcher: prepares the lookups of batches before their steps.
#ifndef KERAS_SPARSE_OPS_CORE_STAGING_LOOKUP_PREFETCHER_H_
#define KERAS_SPARSE_OPS_CORE_STAGING_LOOKUP_PREFETCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"
#include "ops/core/staging/fingerprint.h"
#include "ops/core/staging/prefetch_buffer.h"

namespace keras_sparse {

class LookupPrefetcher;
struct StagedBatch;

// The prepared rows of a lookup, and the objects that they keep alive.
class StagedRows {
 public:
  virtual ~StagedRows() = default;
};

// A lookup of a batch that was handed to a stage.
class StagedLookup {
 public:
  using Work = std::function<Status(std::unique_ptr<StagedRows>* rows)>;

  //   area  of the lookup's first table
  //   work  to be done ahead, on a thread of the stage
  StagedLookup(Fingerprint fingerprint, std::shared_ptr<PrefetchBuffer> area, Work work)
      : fingerprint_(fingerprint), area_(std::move(area)), work_(std::move(work)) {}

  const Fingerprint& fingerprint() const { return fingerprint_; }

  // Returns the prepared rows to the step that has taken this lookup out of its area; waits while
  // they are being prepared. Returns null if the stage has not started the lookup, or has dropped
  // it: the step then does the lookup itself. Returns the error of the work, which names the batch.
  //   waited_ns  receives the nanoseconds that this call has waited
  Status Use(std::unique_ptr<StagedRows>* rows, int64_t* waited_ns);

  // Nanoseconds that the work has taken.
  // REQUIRES: Use has returned rows
  int64_t work_ns() const { return work_ns_; }

 private:
  friend class LookupPrefetcher;

  //   batch  its number, for errors
  void DoWork(int64_t batch);

  const Fingerprint fingerprint_;
  const std::shared_ptr<PrefetchBuffer> area_;
  // The members below are changed with the stage's lock, or by the thread that does the work.
  Work work_;
  std::unique_ptr<StagedRows> rows_;
  Status status_;
  int64_t work_ns_ = 0;
  std::weak_ptr<LookupPrefetcher> stage_;
  StagedBatch* batch_ = nullptr;  // null once the batch is over
};

// A stage takes batches in the order of the data and works on them with its own threads. At most
// `capacity` batches are ready or in work. Steps may use the batches in any order, or not at all. A
// batch is dropped if steps pass it over repeatedly, or if it blocks the batch that a step
// requests; its step then does its lookups itself.
//
// Thread safety: every method may be called from any thread.
class LookupPrefetcher : public std::enable_shared_from_this<LookupPrefetcher> {
 public:
  struct Options {
    // The number of batches in work at once, and of batches ready or in work. With 0, each starts
    // at 1 and grows until steps need not wait.
    int64_t num_threads = 0;
    int64_t capacity = 0;
  };
  // Maximum of both.
  static constexpr int64_t kMaxCapacity = 64;
  // Returns InvalidArgument for options out of range.
  static Status Open(const Options& options, std::shared_ptr<LookupPrefetcher>* stage);

  ~LookupPrefetcher();
  LookupPrefetcher(const LookupPrefetcher&) = delete;
  LookupPrefetcher& operator=(const LookupPrefetcher&) = delete;

  // Takes a batch and returns immediately.
  //   number   of the batch in its data, for errors
  //   lookups  may be empty
  void Stage(int64_t number, std::vector<std::shared_ptr<StagedLookup>> lookups);

  // Drops all batches and ends the threads; batches staged afterwards are dropped. Must be called
  // before the last reference is dropped, because lookups in the areas of tables hold no reference.
  void Stop();

  // The current values.
  int64_t capacity() const;
  int64_t num_threads() const;
  // Returns how many steps may come between the work on a batch and its own step: those of the
  // batches that are ready or in work before it.
  int64_t max_staleness() const;
  // Returns the maximum that the capacity may grow to.
  int64_t most_ahead() const;
  // Number of ready batches, and of batches ready or in work.
  int64_t num_ready() const;
  int64_t num_ahead() const;

 private:
  friend class StagedLookup;
  using Batches = std::vector<std::unique_ptr<StagedBatch>>;

  explicit LookupPrefetcher(const Options& options);

  void DoWork();
  // Releases the lock while it works.
  void DoBatch(StagedBatch* batch) REQUIRES(mutex_);
  Status Use(StagedLookup* lookup, std::unique_ptr<StagedRows>* rows, int64_t* waited_ns);

  // The remains of dropped lookups. Must be declared before the lock, so that it is destroyed after
  // the lock: it may contain a table's last reference.
  struct Leftovers {
    std::vector<StagedLookup::Work> work;
    std::vector<std::unique_ptr<StagedRows>> rows;
  };

  // Returns the next batch to work on; null if there is none, or no room for one.
  StagedBatch* NextBatch() const REQUIRES(mutex_);
  // Drops batches that steps seem to have skipped, now that a step requests `asked`.
  void PassOver(const StagedBatch* asked, Leftovers* leftovers) REQUIRES(mutex_);
  // Records that a step is done with a lookup, and perhaps with its batch.
  void Close(StagedLookup* lookup) REQUIRES(mutex_);
  // REQUIRES: the batch is not in work
  void Drop(StagedBatch* batch, Leftovers* leftovers) REQUIRES(mutex_);
  void Remove(StagedBatch* batch) REQUIRES(mutex_);
  // Returns ResourceExhausted if the system cannot start another thread.
  Status StartThread() REQUIRES(mutex_);
  // Works further ahead if steps wait.
  void CountStep(bool has_waited) REQUIRES(mutex_);

  const Options options_;

  mutable Mutex mutex_;
  ConditionVariable work_;   // there may be a batch to start
  ConditionVariable ready_;  // a batch in work has become ready
  // Waiting, in work and ready batches, in order.
  Batches batches_ GUARDED_BY(mutex_);
  int64_t num_working_ GUARDED_BY(mutex_) = 0;
  int64_t num_ready_ GUARDED_BY(mutex_) = 0;
  int64_t num_threads_ GUARDED_BY(mutex_);
  int64_t capacity_ GUARDED_BY(mutex_);
  int64_t num_steps_ GUARDED_BY(mutex_) = 0;  // since both were last adjusted
  int64_t num_waits_ GUARDED_BY(mutex_) = 0;  // steps among these that waited
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STAGING_LOOKUP_PREFETCHER_H_
