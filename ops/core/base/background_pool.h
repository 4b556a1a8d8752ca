// Threads for work that no step waits for: rows on their way down, compaction.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_BACKGROUND_POOL_H_
#define KERAS_SPARSE_OPS_CORE_BASE_BACKGROUND_POOL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"

namespace keras_sparse {

// Threads start with the first task. Tasks begin in the order in which they were scheduled.
//
// Thread safety: every method may be called from any thread.
class BackgroundPool {
 public:
  // Those of the process, shared by all tables; null where the variable is 0. They have as many
  // threads as the largest number so far. InvalidArgument for a variable that is not a number
  // within its bounds.
  //   KERAS_SPARSE_EVICTION_THREADS            0 to 64, 1 if it is not set
  //   KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION    0 or 1, 0 if it is not set
  static Status ForEviction(BackgroundPool** pool);
  static Status ForCompaction(BackgroundPool** pool);
  // Stops both, as the process ends.
  static void StopAll();

  explicit BackgroundPool(int num_threads);
  ~BackgroundPool() { Stop(); }
  BackgroundPool(const BackgroundPool&) = delete;
  BackgroundPool& operator=(const BackgroundPool&) = delete;

  // False if there is no thread to do it: after Stop, where the system gives none, and in a process
  // that was forked from the pool's. `drop` is called instead of the task if Stop comes before it.
  bool Schedule(std::function<void()> task, std::function<void()> drop = [] {});

  // Ends the threads after the tasks that they are in.
  void Stop();

  // Whether this is the process that has the threads.
  bool IsHere() const;
  void AddThreadsUpTo(int num_threads);

 private:
  struct Task {
    std::function<void()> task;
    std::function<void()> drop;
  };

  // Starts the threads, if they are not there.
  bool HasThreads() REQUIRES(mutex_);
  void Work();

  const int64_t process_;
  Mutex mutex_;
  ConditionVariable work_;
  int num_threads_ GUARDED_BY(mutex_);
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
};

// What one object has done by a pool: one run at a time, and none once it has ended.
//
// Thread safety: Schedule may be called from any thread, with no lock that a run takes.
class BackgroundTask {
 public:
  // A run that returns true is followed by another, after the tasks of others that wait. `on_stop`
  // is called where a run was to come and the pool has stopped.
  BackgroundTask(
      BackgroundPool* pool, std::function<bool()> run, std::function<void()> on_stop = [] {});
  // Waits for a run that has begun.
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  // A run begins after this call; where the pool has no threads, by the caller before it returns.
  void Schedule();

 private:
  // Shared with the pool, which may come to it after the object has gone.
  struct State;
  // Returns whether another run is to follow.
  static bool Run(State* state, const std::function<bool()>& run);
  static void RunInPool(const std::shared_ptr<State>& state);
  static void Drop(State* state);
  static bool HandOver(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_BACKGROUND_POOL_H_
