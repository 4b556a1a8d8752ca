// TfExecutor: runs the core's loops on the threads that TensorFlow's own kernels use.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_TF_EXECUTOR_H_
#define KERAS_SPARSE_OPS_TF_BINDING_TF_EXECUTOR_H_

#include <cstdint>
#include <functional>

#include "ops/core/base/executor.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace keras_sparse {

// Does not use the pool's ParallelFor. There the caller runs one block and then waits, so that each
// loop costs waking a thread (70 us). Blocks are divided by halves, about four per thread. Here the
// caller works while the others wake up, and blocks are taken one by one. No thread waits for a
// block that has not started. This makes steps of W1 and W2 4 to 5 % faster.
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
