#include "ops/core/background_pool.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace keras_sparse {
namespace {

// A pool that is made when it is first asked for, and outlives the tables that static objects hold.
struct SharedPool {
  const char* variable;
  int most_threads;
  int usual_threads;
  BackgroundPool* pool = nullptr;
};

std::mutex shared_mutex;
SharedPool eviction = {"KERAS_SPARSE_EVICTION_THREADS", 64, 1};
SharedPool compaction = {"KERAS_SPARSE_SSDHASH_ASYNC_COMPACTION", 1, 0};

Status ReadThreads(const SharedPool& shared, int* num_threads) {
  *num_threads = shared.usual_threads;
  const char* text = std::getenv(shared.variable);
  if (text == nullptr) return Status::Ok();
  const std::string value = text;
  if (!value.empty() && value.size() <= 2 &&
      value.find_first_not_of("0123456789") == std::string::npos) {
    *num_threads = std::atoi(text);
    if (*num_threads <= shared.most_threads) return Status::Ok();
  }
  return InvalidArgument("the environment variable " + std::string(shared.variable) +
                         " must be a number from 0 to " + std::to_string(shared.most_threads) +
                         ". Received: '" + value + "'");
}

Status Get(SharedPool* shared, BackgroundPool** pool) {
  int num_threads = 0;
  KERAS_SPARSE_RETURN_IF_ERROR(ReadThreads(*shared, &num_threads));
  std::lock_guard<std::mutex> lock(shared_mutex);
  if (num_threads > 0 && shared->pool == nullptr) shared->pool = new BackgroundPool(num_threads);
  *pool = num_threads > 0 ? shared->pool : nullptr;
  return Status::Ok();
}

}  // namespace

Status BackgroundPool::ForEviction(BackgroundPool** pool) { return Get(&eviction, pool); }

Status BackgroundPool::ForCompaction(BackgroundPool** pool) { return Get(&compaction, pool); }

void BackgroundPool::StopAll() {
  std::lock_guard<std::mutex> lock(shared_mutex);
  for (const SharedPool* shared : {&eviction, &compaction}) {
    if (shared->pool != nullptr) shared->pool->Stop();
  }
}

BackgroundPool::BackgroundPool(int num_threads) : num_threads_(num_threads), process_(::getpid()) {}

void BackgroundPool::Schedule(std::function<void()> task) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!stopped_ && HasThreads()) {
      tasks_.push_back(std::move(task));
      work_.notify_one();
      return;
    }
  }
  task();
}

bool BackgroundPool::HasThreads() {
  try {
    while (static_cast<int>(threads_.size()) < num_threads_) {
      threads_.emplace_back([this] { Work(); });
    }
  } catch (const std::system_error&) {
    // The system gives no more.
  }
  return !threads_.empty();
}

void BackgroundPool::Stop() {
  if (process_ != ::getpid()) return;
  std::vector<std::thread> threads;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
  }
  work_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void BackgroundPool::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopped_ || !tasks_.empty(); });
    if (stopped_) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

struct BackgroundTask::State {
  BackgroundPool* pool;
  std::function<bool()> run;
  std::mutex mutex;
  std::condition_variable stopped_running;
  bool is_pending = false;  // the pool has it
  bool is_running = false;
  bool is_wanted = false;  // again, since this run began
  bool has_ended = false;
};

BackgroundTask::BackgroundTask(BackgroundPool* pool, std::function<bool()> run)
    : state_(std::make_shared<State>()) {
  state_->pool = pool;
  state_->run = std::move(run);
}

BackgroundTask::~BackgroundTask() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->has_ended = true;
  state_->stopped_running.wait(lock, [this] { return !state_->is_running; });
}

void BackgroundTask::Schedule() {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->is_wanted = true;
    if (state_->is_pending) return;
    state_->is_pending = true;
  }
  state_->pool->Schedule([state = state_] { Run(state); });
}

void BackgroundTask::Run(const std::shared_ptr<State>& state) {
  {
    std::unique_lock<std::mutex> lock(state->mutex);
    if (state->has_ended) return;
    state->is_running = true;
    state->is_wanted = false;
    lock.unlock();
    const bool again = state->run();
    lock.lock();
    state->is_running = false;
    state->stopped_running.notify_all();
    state->is_pending = !state->has_ended && (again || state->is_wanted);
    if (!state->is_pending) return;
  }
  state->pool->Schedule([state] { Run(state); });
}

}  // namespace keras_sparse
