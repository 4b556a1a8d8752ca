// Memory of large op outputs, used again from step to step.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_OUTPUT_ALLOCATOR_H_
#define KERAS_SPARSE_OPS_TF_BINDING_OUTPUT_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "ops/core/base/huge_buffer.h"
#include "ops/core/base/mutex.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace keras_sparse {

namespace tf = tensorflow;

// TensorFlow's CPU allocator hands memory of tens of megabytes back to the system after each step
// and gets it anew, zeroed page by page: for the rows of a batch that takes longer than the lookup.
// This one keeps what is freed, on huge pages, for the next step.
//
// Thread safety: every method may be called from any thread.
class OutputAllocator : public tf::Allocator {
 public:
  // The one of the process. It never ends: tensors may outlive everything else.
  static OutputAllocator* Get();

  std::string Name() override { return "keras_sparse_output"; }
  void* AllocateRaw(size_t alignment, size_t num_bytes) override;
  void DeallocateRaw(void* data) override;

 private:
  // At most this much unused memory is kept.
  static constexpr int64_t kMaxKeptBytes = int64_t{512} << 20;

  Mutex mutex_;
  std::unordered_map<void*, HugeBuffer> used_ GUARDED_BY(mutex_);
  std::multimap<int64_t, HugeBuffer> kept_ GUARDED_BY(mutex_);  // by size
  int64_t kept_bytes_ GUARDED_BY(mutex_) = 0;
};

// Memory for an output of an op: of the allocator above, or, if it is small, of TensorFlow's.
// ResourceExhausted where there is none left.
//   memory  that it is to be in, instead
absl::Status MakeTensor(tf::DataType type, const tf::TensorShape& shape, tf::Tensor* tensor,
                        tf::Allocator* memory = nullptr);

// An output of floats of an op.
absl::Status AllocateFloats(tf::OpKernelContext* ctx, int output, const tf::TensorShape& shape,
                            float** data);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_OUTPUT_ALLOCATOR_H_
