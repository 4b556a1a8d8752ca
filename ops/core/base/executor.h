// Executor: runs the core's loops. The bindings wrap TensorFlow's thread pool in an Executor, so
// the core starts no threads of its own for a step.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_EXECUTOR_H_
#define KERAS_SPARSE_OPS_CORE_BASE_EXECUTOR_H_

#include <cstdint>
#include <functional>

namespace keras_sparse {

class Executor {
 public:
  virtual ~Executor() = default;

  // Calls body(begin, end) for disjoint ranges that cover [0, total), on any threads, and returns
  // when all calls have returned. `unit_cost` is the approximate number of nanoseconds per unit; it
  // only decides the size of the ranges. A body must not call ParallelFor, and must not wait for a
  // lock that a caller of ParallelFor may hold.
  virtual void ParallelFor(int64_t total, int64_t unit_cost,
                           const std::function<void(int64_t begin, int64_t end)>& body) = 0;
};

// Runs everything on the calling thread.
class InlineExecutor : public Executor {
 public:
  void ParallelFor(int64_t total, int64_t /*unit_cost*/,
                   const std::function<void(int64_t, int64_t)>& body) override {
    if (total > 0) body(0, total);
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_EXECUTOR_H_
