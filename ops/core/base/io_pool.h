// IoPool: threads that keep many reads of a disk in flight.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_IO_POOL_H_
#define KERAS_SPARSE_OPS_CORE_BASE_IO_POOL_H_

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"

namespace keras_sparse {

// A disk answers 32 reads at once in little more time than one. Threads start with the first large
// batch and end with the pool; the caller of a small batch runs it itself.
//
// Thread safety: every method may be called from any thread; batches share the threads.
class IoPool {
 public:
  // Returns the process's pool.
  static IoPool* Shared();

  IoPool() = default;
  ~IoPool();
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  // Calls task(0) to task(n - 1), on any threads. Returns the first error in this order; the other
  // tasks are still run.
  Status Run(size_t n, const std::function<Status(size_t)>& task);

 private:
  // The tasks of one caller, assigned in runs. Changed under mutex_.
  struct Batch {
    const std::function<Status(size_t)>* task;
    size_t size;
    size_t next = 0;    // the first task not assigned
    size_t unfinished;  // tasks not finished
    size_t first_failed;
    Status status;
  };

  void Start() REQUIRES(mutex_);
  void Work();
  // Runs one run of a batch; releases the lock meanwhile.
  void DoRun(Batch* batch) REQUIRES(mutex_);

  Mutex mutex_;
  ConditionVariable work_;
  ConditionVariable done_;
  std::vector<Batch*> batches_ GUARDED_BY(mutex_);  // with tasks to assign
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_IO_POOL_H_
