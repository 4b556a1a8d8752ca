#include "ops/core/base/io_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "ops/core/base/per_process.h"

namespace keras_sparse {
namespace {

constexpr size_t kThreads = 32;
// A run is long enough that assigning it costs little compared with its reads.
constexpr size_t kRunTasks = 16;
// For fewer tasks, waking threads does not pay off.
constexpr size_t kLeastTasks = 8;

}  // namespace

IoPool::~IoPool() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  work_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

IoPool* IoPool::Shared() { return OfThisProcess<IoPool>(); }

Status IoPool::Run(size_t n, const std::function<Status(size_t)>& task) {
  if (n == 0) return Status::Ok();
  Batch batch;
  batch.task = &task;
  batch.size = n;
  batch.unfinished = n;
  batch.first_failed = n;
  const MutexLock lock(mutex_);
  if (n >= kLeastTasks && threads_.empty()) Start();
  batches_.push_back(&batch);
  if (n >= kLeastTasks) work_.NotifyAll();
  while (batch.next < n) DoRun(&batch);
  while (batch.unfinished > 0) done_.Wait(mutex_);
  return batch.status;
}

void IoPool::Start() {
  try {
    for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
    // The system cannot start more threads. Callers run the remaining tasks.
  }
}

void IoPool::Work() {
  const MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && batches_.empty()) work_.Wait(mutex_);
    if (batches_.empty()) return;
    DoRun(batches_.front());
  }
}

void IoPool::DoRun(Batch* batch) {
  const size_t begin = batch->next;
  // Shorter runs towards the end, so that all threads finish together.
  const size_t left = batch->size - begin;
  const size_t end = begin + std::clamp<size_t>(left / (2 * kThreads), 1, kRunTasks);
  batch->next = end;
  if (end == batch->size) {
    batches_.erase(std::find(batches_.begin(), batches_.end(), batch));
  }
  size_t failed = end;
  Status status;
  {
    const MutexUnlock unlock(mutex_);
    for (size_t i = begin; i < end; ++i) {
      const Status done = (*batch->task)(i);
      if (done.ok() || failed != end) continue;
      failed = i;
      status = done;
    }
  }
  if (failed != end && failed < batch->first_failed) {
    batch->first_failed = failed;
    batch->status = std::move(status);
  }
  batch->unfinished -= end - begin;
  if (batch->unfinished == 0) done_.NotifyAll();
}

}  // namespace keras_sparse
