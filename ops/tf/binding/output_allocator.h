// OutputAllocator: memory of large op outputs, reused from step to step.
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

// TensorFlow's CPU allocator returns memory of tens of megabytes to the system after each step and
// gets it again, zeroed page by page: for the rows of a batch this takes longer than the lookup.
// This allocator keeps freed memory, on huge pages, for the next step.
//
// Thread safety: every method may be called from any thread.
class OutputAllocator : public tf::Allocator {
 public:
  // Returns the process's allocator. It is never destroyed, because tensors may outlive everything
  // else.
  static OutputAllocator* Get();

  std::string Name() override { return "keras_sparse_output"; }
  void* AllocateRaw(size_t alignment, size_t num_bytes) override;
  void DeallocateRaw(void* data) override;

 private:
  // Maximum amount of unused memory that is kept.
  static constexpr int64_t kMaxKeptBytes = int64_t{512} << 20;

  Mutex mutex_;
  std::unordered_map<void*, HugeBuffer> used_ GUARDED_BY(mutex_);
  std::multimap<int64_t, HugeBuffer> kept_ GUARDED_BY(mutex_);  // by size
  int64_t kept_bytes_ GUARDED_BY(mutex_) = 0;
};

// Allocates an output of an op: from the allocator above, or from TensorFlow's if it is small.
// Returns ResourceExhausted if there is no memory left.
//   memory  the allocator to use instead
absl::Status MakeTensor(tf::DataType type, const tf::TensorShape& shape, tf::Tensor* tensor,
                        tf::Allocator* memory = nullptr);

// Allocates an output of floats of an op.
absl::Status AllocateFloats(tf::OpKernelContext* ctx, int output, const tf::TensorShape& shape,
                            float** data);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_OUTPUT_ALLOCATOR_H_
