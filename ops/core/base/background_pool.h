// BackgroundPool: threads for work that no step waits for, such as demotions and compaction.
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

// Threads start with the first task. Tasks start in the order in which they were scheduled.
//
// Thread safety: every method may be called from any thread.
class BackgroundPool {
 public:
  // Return the process's pools, shared by all tables; null if the variable is 0. A pool has as many
  // threads as the largest value so far. Return InvalidArgument for a variable that is not a number
  // within its bounds.
  //   KERAS_SPARSE_EVICTION_THREADS            0 to 64, default 1
  //   KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION    0 or 1, default 0
  static Status ForEviction(BackgroundPool** pool);
  static Status ForCompaction(BackgroundPool** pool);
  // Stops both pools when the process ends.
  static void StopAll();

  explicit BackgroundPool(int num_threads);
  ~BackgroundPool() { Stop(); }
  BackgroundPool(const BackgroundPool&) = delete;
  BackgroundPool& operator=(const BackgroundPool&) = delete;

  // Returns false if no thread can run the task: after Stop, if the system cannot start threads,
  // and in a process forked from the pool's. If Stop comes before the task, `drop` is called
  // instead.
  bool Schedule(std::function<void()> task, std::function<void()> drop = [] {});

  // Ends the threads after their current tasks.
  void Stop();

  // Returns whether this is the process that has the threads.
  bool IsHere() const;
  void AddThreadsUpTo(int num_threads);

 private:
  struct Task {
    std::function<void()> task;
    std::function<void()> drop;
  };

  // Starts the threads if they are not running.
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

// The background work of one object: one run at a time, and none after the object is destroyed.
//
// Thread safety: Schedule may be called from any thread that holds no lock which a run takes.
class BackgroundTask {
 public:
  // If a run returns true, another one follows, after waiting tasks of other objects. `on_stop` is
  // called if a run was due and the pool has stopped.
  BackgroundTask(
      BackgroundPool* pool, std::function<bool()> run, std::function<void()> on_stop = [] {});
  // Waits for a run that has started.
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  // Starts a run after this call; if the pool has no threads, the caller runs it before this
  // returns.
  void Schedule();

 private:
  // Shared with the pool, which may access it after the object is destroyed.
  struct State;
  // Returns whether another run should follow.
  static bool Run(State* state, const std::function<bool()>& run);
  static void RunInPool(const std::shared_ptr<State>& state);
  static void Drop(State* state);
  static bool HandOver(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_BACKGROUND_POOL_H_
