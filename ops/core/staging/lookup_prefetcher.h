// LookupPrefetcher: makes the lookups of batches ready before their steps come.
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

// What a stage has made ready for a lookup, and what it keeps alive for it.
class StagedRows {
 public:
  virtual ~StagedRows() = default;
};

// A lookup of a batch that a stage was given.
class StagedLookup {
 public:
  using Work = std::function<Status(std::unique_ptr<StagedRows>* rows)>;

  //   area  of the lookup's first table
  //   work  what is done ahead, on a thread of the stage
  StagedLookup(Fingerprint fingerprint, std::shared_ptr<PrefetchBuffer> area, Work work)
      : fingerprint_(fingerprint), area_(std::move(area)), work_(std::move(work)) {}

  const Fingerprint& fingerprint() const { return fingerprint_; }

  // What was made ready, for the step that has taken this out of its area, which waits if it is
  // being made. Null if the stage has not come to it, or has dropped it: the step then does the
  // lookup itself. An error of the work is that of the step; it names the batch.
  //   waited_ns  gets the nanoseconds that this call has waited
  Status Use(std::unique_ptr<StagedRows>* rows, int64_t* waited_ns);

  // Nanoseconds that the work has taken.
  // REQUIRES: Use has given rows
  int64_t work_ns() const { return work_ns_; }

 private:
  friend class LookupPrefetcher;

  //   batch  its number, for errors
  void DoWork(int64_t batch);

  const Fingerprint fingerprint_;
  const std::shared_ptr<PrefetchBuffer> area_;
  // What follows changes with the stage's lock alone, or by the thread that does the work.
  Work work_;
  std::unique_ptr<StagedRows> rows_;
  Status status_;
  int64_t work_ns_ = 0;
  std::weak_ptr<LookupPrefetcher> stage_;
  StagedBatch* batch_ = nullptr;  // null once the batch is over
};

// A stage takes batches in the order of the data, works on them with threads of its own, and has
// `capacity` of them at most ready or in work. Steps may take them in any order, or not at all: a
// batch that is passed over again and again, or that stands in the way of the one a step asks for,
// is dropped, which changes nothing but that its step does its lookups itself.
//
// Thread safety: every method may be called from any thread.
class LookupPrefetcher : public std::enable_shared_from_this<LookupPrefetcher> {
 public:
  struct Options {
    // How many batches are in work at once, and how many ready or in work. 0 for as many as it
    // takes, from 1 upward, until steps need not wait.
    int64_t num_threads = 0;
    int64_t capacity = 0;
  };
  // The most there can be of both.
  static constexpr int64_t kMaxCapacity = 64;
  // InvalidArgument for options out of range.
  static Status Open(const Options& options, std::shared_ptr<LookupPrefetcher>* stage);

  ~LookupPrefetcher();
  LookupPrefetcher(const LookupPrefetcher&) = delete;
  LookupPrefetcher& operator=(const LookupPrefetcher&) = delete;

  // Takes a batch and returns at once.
  //   number   of the batch in its data, for errors
  //   lookups  perhaps none
  void Stage(int64_t number, std::vector<std::shared_ptr<StagedLookup>> lookups);

  // Drops all batches and ends the threads; what is staged afterwards is dropped. To be called
  // before the last reference goes, as lookups in the areas of tables keep none.
  void Stop();

  // As they are now.
  int64_t capacity() const;
  int64_t num_threads() const;
  // Steps that may come between the work on a batch and its own: those of the batches that are
  // ready or in work before it.
  int64_t max_staleness() const;
  // The capacity that it may come to.
  int64_t most_ahead() const;
  // Batches that are ready, and those that are ready or in work.
  int64_t num_ready() const;
  int64_t num_ahead() const;

 private:
  friend class StagedLookup;
  using Batches = std::vector<std::unique_ptr<StagedBatch>>;

  explicit LookupPrefetcher(const Options& options);

  void DoWork();
  // With the lock given back meanwhile.
  void DoBatch(StagedBatch* batch) REQUIRES(mutex_);
  Status Use(StagedLookup* lookup, std::unique_ptr<StagedRows>* rows, int64_t* waited_ns);

  // What dropped lookups leave. To be declared before the lock, so that it goes after it: a table's
  // last reference may be in it.
  struct Leftovers {
    std::vector<StagedLookup::Work> work;
    std::vector<std::unique_ptr<StagedRows>> rows;
  };

  // The batch to begin with; null if there is none, or no room for it.
  StagedBatch* NextBatch() const REQUIRES(mutex_);
  // Drops batches that steps seem to have left out, now that one asks for this one.
  void PassOver(const StagedBatch* asked, Leftovers* leftovers) REQUIRES(mutex_);
  // Says that a step is done with a lookup, and perhaps with its batch.
  void Close(StagedLookup* lookup) REQUIRES(mutex_);
  // REQUIRES: the batch is not in work
  void Drop(StagedBatch* batch, Leftovers* leftovers) REQUIRES(mutex_);
  void Remove(StagedBatch* batch) REQUIRES(mutex_);
  // ResourceExhausted if the system has no more threads.
  Status StartThread() REQUIRES(mutex_);
  // Works further ahead if steps wait.
  void CountStep(bool has_waited) REQUIRES(mutex_);

  const Options options_;

  mutable Mutex mutex_;
  ConditionVariable work_;   // there may be a batch to begin with
  ConditionVariable ready_;  // a batch in work has become ready
  // In their order: waiting, in work and ready ones.
  Batches batches_ GUARDED_BY(mutex_);
  int64_t num_working_ GUARDED_BY(mutex_) = 0;
  int64_t num_ready_ GUARDED_BY(mutex_) = 0;
  int64_t num_threads_ GUARDED_BY(mutex_);
  int64_t capacity_ GUARDED_BY(mutex_);
  int64_t num_steps_ GUARDED_BY(mutex_) = 0;  // since both were last looked at
  int64_t num_waits_ GUARDED_BY(mutex_) = 0;  // of these
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STAGING_LOOKUP_PREFETCHER_H_
