// Runs the core's loops on the threads that TensorFlow's own kernels use.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_TF_EXECUTOR_H_
#define KERAS_SPARSE_OPS_TF_BINDING_TF_EXECUTOR_H_

#include <cstdint>
#include <functional>

#include "ops/core/base/executor.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace keras_sparse {

// Not by the pool's own ParallelFor. There the caller does one block and then waits, so that each
// loop costs waking a thread (70 us), and blocks are handed out in halves of halves, about four a
// thread. Here the caller works on while the others wake up, blocks are taken one by one, and
// no thread waits for one that has not begun. Steps of W1 and W2 are 4 to 5 % faster by it.
class TfExecutor : public Executor {
 public:
  explicit TfExecutor(tensorflow::OpKernelContext* ctx)
      : pool_(ctx->device()->tensorflow_cpu_worker_threads()->workers) {}

  void ParallelFor(int64_t total, int64_t unit_cost,
                   const std::function<void(int64_t, int64_t)>& body) override;

 private:
  tsl::thread::ThreadPool* pool_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_TF_EXECUTOR_H_
