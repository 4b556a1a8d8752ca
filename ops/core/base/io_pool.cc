#include "ops/core/base/io_pool.h"

#include <algorithm>
#include <system_error>

#include "ops/core/base/per_process.h"

namespace keras_sparse {
namespace {

constexpr int kThreads = 32;
// A run is long enough that taking it costs little beside its reads.
constexpr size_t kRunTasks = 16;
// Fewer tasks than this are not worth waking anyone.
constexpr size_t kLeastTasks = 8;

}  // namespace

IoPool::~IoPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
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
  std::unique_lock<std::mutex> lock(mutex_);
  if (n >= kLeastTasks && threads_.empty()) Start();
  batches_.push_back(&batch);
  if (n >= kLeastTasks) work_.notify_all();
  while (batch.next < n) DoRun(&batch, &lock);
  done_.wait(lock, [&] { return batch.unfinished == 0; });
  return batch.status;
}

void IoPool::Start() {
  try {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
    // The system gives no more. Callers do what nobody else does.
  }
}

void IoPool::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !batches_.empty(); });
    if (batches_.empty()) return;
    DoRun(batches_.front(), &lock);
  }
}

void IoPool::DoRun(Batch* batch, std::unique_lock<std::mutex>* lock) {
  const size_t begin = batch->next;
  // Short runs towards the end, so that all threads end together.
  const size_t left = batch->size - begin;
  const size_t end = begin + std::clamp<size_t>(left / (2 * kThreads), 1, kRunTasks);
  batch->next = end;
  if (end == batch->size) {
    batches_.erase(std::find(batches_.begin(), batches_.end(), batch));
  }
  lock->unlock();
  size_t failed = end;
  Status status;
  for (size_t i = begin; i < end; ++i) {
    const Status done = (*batch->task)(i);
    if (done.ok() || failed != end) continue;
    failed = i;
    status = done;
  }
  lock->lock();
  if (failed != end && failed < batch->first_failed) {
    batch->first_failed = failed;
    batch->status = status;
  }
  batch->unfinished -= end - begin;
  if (batch->unfinished == 0) done_.notify_all();
}

}  // namespace keras_sparse
