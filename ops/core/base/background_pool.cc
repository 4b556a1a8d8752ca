#include "ops/core/base/background_pool.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include "ops/core/base/environment_variable.h"

namespace keras_sparse {
namespace {

Mutex shared_mutex;

// A pool that is created on first use, and outlives tables in static objects.
struct SharedPool {
  const char* variable;
  int most_threads;
  int usual_threads;
  BackgroundPool* pool GUARDED_BY(shared_mutex) = nullptr;
};

SharedPool eviction = {"KERAS_SPARSE_EVICTION_THREADS", 64, 1};
SharedPool compaction = {"KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION", 1, 0};

Status Get(SharedPool* shared, BackgroundPool** pool) {
  int num_threads = 0;
  KERAS_SPARSE_RETURN_IF_ERROR(
      ReadEnvironment(shared->variable, shared->most_threads, shared->usual_threads, &num_threads));
  const MutexLock lock(shared_mutex);
  *pool = nullptr;
  if (num_threads == 0) return Status::Ok();
  // After a fork, the parent's pool has no threads.
  if (shared->pool == nullptr || !shared->pool->IsHere()) shared->pool = new BackgroundPool(0);
  shared->pool->AddThreadsUpTo(num_threads);
  *pool = shared->pool;
  return Status::Ok();
}

}  // namespace

Status BackgroundPool::ForEviction(BackgroundPool** pool) { return Get(&eviction, pool); }

Status BackgroundPool::ForCompaction(BackgroundPool** pool) { return Get(&compaction, pool); }

void BackgroundPool::StopAll() {
  const MutexLock lock(shared_mutex);
  for (const SharedPool* shared : {&eviction, &compaction}) {
    if (shared->pool != nullptr) shared->pool->Stop();
  }
}

BackgroundPool::BackgroundPool(int num_threads) : process_(::getpid()), num_threads_(num_threads) {}

bool BackgroundPool::IsHere() const { return process_ == ::getpid(); }

void BackgroundPool::AddThreadsUpTo(int num_threads) {
  const MutexLock lock(mutex_);
  num_threads_ = std::max(num_threads_, num_threads);
}

bool BackgroundPool::Schedule(std::function<void()> task, std::function<void()> drop) {
  if (!IsHere()) return false;
  const MutexLock lock(mutex_);
  if (stopped_ || !HasThreads()) return false;
  tasks_.push_back({std::move(task), std::move(drop)});
  work_.NotifyOne();
  return true;
}

bool BackgroundPool::HasThreads() {
  try {
    while (static_cast<int>(threads_.size()) < num_threads_) {
      threads_.emplace_back([this] { Work(); });
    }
  } catch (const std::system_error&) {
    // The system cannot start more threads.
  }
  return !threads_.empty();
}

void BackgroundPool::Stop() {
  if (!IsHere()) return;
  std::vector<std::thread> threads;
  std::deque<Task> dropped;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
    dropped.swap(tasks_);
  }
  work_.NotifyAll();
  for (std::thread& thread : threads) thread.join();
  for (const Task& each : dropped) each.drop();
}

void BackgroundPool::Work() {
  const MutexLock lock(mutex_);
  while (true) {
    while (!stopped_ && tasks_.empty()) work_.Wait(mutex_);
    if (stopped_) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    const MutexUnlock unlock(mutex_);
    task.task();
  }
}

struct BackgroundTask::State {
  BackgroundPool* pool;
  std::function<bool()> run;
  std::function<void()> on_stop;
  Mutex mutex;
  ConditionVariable stopped_running;
  bool is_pending GUARDED_BY(mutex) = false;  // scheduled or running
  bool is_running GUARDED_BY(mutex) = false;
  bool is_wanted GUARDED_BY(mutex) = false;  // another run was requested since this one began
  bool has_ended GUARDED_BY(mutex) = false;
};

BackgroundTask::BackgroundTask(BackgroundPool* pool, std::function<bool()> run,
                               std::function<void()> on_stop)
    : state_(std::make_shared<State>()) {
  state_->pool = pool;
  state_->run = std::move(run);
  state_->on_stop = std::move(on_stop);
}

BackgroundTask::~BackgroundTask() {
  if (!state_->pool->IsHere()) return;  // the thread that was running it is in another process
  const MutexLock lock(state_->mutex);
  state_->has_ended = true;
  while (state_->is_running) state_->stopped_running.Wait(state_->mutex);
}

void BackgroundTask::Schedule() {
  {
    const MutexLock lock(state_->mutex);
    state_->is_wanted = true;
    if (state_->is_pending) return;
    state_->is_pending = true;
  }
  while (!HandOver(state_) && Run(state_.get(), state_->run)) {
  }
}

bool BackgroundTask::HandOver(const std::shared_ptr<State>& state) {
  return state->pool->Schedule([state] { RunInPool(state); }, [state] { Drop(state.get()); });
}

void BackgroundTask::RunInPool(const std::shared_ptr<State>& state) {
  // As a new task, so that other objects get their turn.
  if (Run(state.get(), state->run) && !HandOver(state)) Drop(state.get());
}

void BackgroundTask::Drop(State* state) {
  (void)Run(state, [state] {
    state->on_stop();
    return false;
  });
  const MutexLock lock(state->mutex);
  state->is_pending = false;
}

bool BackgroundTask::Run(State* state, const std::function<bool()>& run) {
  const MutexLock lock(state->mutex);
  if (state->has_ended) return false;
  state->is_running = true;
  state->is_wanted = false;
  bool again = false;
  {
    const MutexUnlock unlock(state->mutex);
    again = run();
  }
  state->is_running = false;
  state->stopped_running.NotifyAll();
  state->is_pending = !state->has_ended && (again || state->is_wanted);
  return state->is_pending;
}

}  // namespace keras_sparse
