#include "ops/tf/binding/output_allocator.h"

#include <utility>

#include "ops/tf/binding/binding.h"

namespace keras_sparse {

OutputAllocator* OutputAllocator::Get() {
  static auto* allocator = new OutputAllocator();
  return allocator;
}

void* OutputAllocator::AllocateRaw(size_t /*alignment: a page's, far above*/, size_t num_bytes) {
  // Whole huge pages, so that batches of slightly different sizes share buffers.
  const int64_t pages = (static_cast<int64_t>(num_bytes) + kHugePageBytes - 1) / kHugePageBytes;
  const int64_t bytes = pages * kHugePageBytes;
  const MutexLock lock(mutex_);
  HugeBuffer buffer;
  const auto kept = kept_.lower_bound(bytes);
  if (kept != kept_.end() && kept->first <= 2 * bytes) {
    buffer = std::move(kept->second);
    kept_bytes_ -= kept->first;
    kept_.erase(kept);
  } else if (!HugeBuffer::Allocate(bytes, &buffer).ok()) {
    return nullptr;  // TensorFlow reports it with the tensor's shape
  }
  void* data = buffer.data();
  used_.emplace(data, std::move(buffer));
  return data;
}

void OutputAllocator::DeallocateRaw(void* data) {
  const MutexLock lock(mutex_);
  const auto used = used_.find(data);
  HugeBuffer buffer = std::move(used->second);
  used_.erase(used);
  if (kept_bytes_ + buffer.bytes() > kMaxKeptBytes) return;
  kept_bytes_ += buffer.bytes();
  kept_.emplace(buffer.bytes(), std::move(buffer));
}

absl::Status MakeTensor(tf::DataType type, const tf::TensorShape& shape, tf::Tensor* tensor,
                        tf::Allocator* memory) {
  const bool is_small = shape.num_elements() * tf::DataTypeSize(type) < kHugePageBytes / 2;
  tf::Allocator* allocator = memory;
  if (allocator == nullptr) allocator = is_small ? tf::cpu_allocator() : OutputAllocator::Get();
  *tensor = tf::Tensor(allocator, type, shape);
  if (tensor->IsInitialized()) return absl::OkStatus();
  return absl::ResourceExhaustedError("the output must fit memory. Received: shape=" +
                                      shape.DebugString());
}

absl::Status AllocateFloats(tf::OpKernelContext* ctx, int output, const tf::TensorShape& shape,
                            float** data) {
  tf::Tensor tensor;
  TF_RETURN_IF_ERROR(MakeTensor(tf::DT_FLOAT, shape, &tensor));
  *data = tensor.flat<float>().data();
  ctx->set_output(output, tensor);
  return absl::OkStatus();
}

}  // namespace keras_sparse
