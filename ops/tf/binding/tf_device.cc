#include "ops/tf/binding/tf_device.h"

#include <map>
#include <string>

#include "ops/core/base/mutex.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device_base.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/stream_executor.h"

namespace keras_sparse {
namespace {

class TfDevice : public Device {
 public:
  TfDevice(stream_executor::Stream* stream, tf::Allocator* allocator)
      : Device(stream->platform_specific_handle().stream, stream->parent()->device_ordinal()),
        gpu_(stream->parent()),
        allocator_(allocator) {}

  int64_t memory_bytes() const override {
    const auto stats = allocator_->GetStats();
    return stats.has_value() ? stats->bytes_limit.value_or(0) : 0;
  }

  Status Allocate(int64_t bytes, void** memory) override {
    KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
    tf::AllocationAttributes attributes;
    attributes.retry_on_failure = false;  // no other op will free memory that a table keeps
    *memory = allocator_->AllocateRaw(tf::Allocator::kAllocatorAlignment,
                                      static_cast<size_t>(bytes), attributes);
    if (*memory != nullptr) return Status::Ok();
    int64_t limit = 0;
    int64_t in_use = 0;
    int64_t taken = 0;  // part of the limit, from the driver
    if (const auto stats = allocator_->GetStats(); stats.has_value()) {
      limit = stats->bytes_limit.value_or(0);
      in_use = stats->bytes_in_use;
      taken = stats->pool_bytes.value_or(limit);
    }
    int64_t free = 0;
    int64_t total = 0;
    if (gpu_->DeviceMemoryUsage(&free, &total) && free < limit - taken) {
      return TakenByOthers(bytes, taken - in_use + free, free, total);
    }
    return NoRoom(bytes, limit - in_use, limit, "of what TensorFlow may have of the GPU");
  }

  void Free(void* memory) override { allocator_->DeallocateRaw(memory); }

 private:
  // Returns the error of an allocation if the driver has less memory than TensorFlow may use.
  //   left  bytes that a table could have used
  static Status TakenByOthers(int64_t bytes, int64_t left, int64_t free, int64_t total) {
    return ResourceExhausted(
        "a table must fit what is left of the GPU's memory, of which another process may have "
        "taken a part: give each process on a GPU memory growth or a limit "
        "(`tf.config.experimental.set_memory_growth`, "
        "`tf.config.set_logical_device_configuration`), or keep the table in the CPU's. "
        "Received: " +
        std::to_string(bytes) + " bytes more, where " + std::to_string(left) +
        " are left to this process, with all of the " + std::to_string(free) +
        " that are free of " + std::to_string(total) + " bytes of the GPU");
  }

  stream_executor::StreamExecutor* const gpu_;
  tf::Allocator* const allocator_;
};

}  // namespace

bool IsOnGpu(tf::OpKernelContext* ctx) {
  const auto* info = ctx->device()->tensorflow_accelerator_device_info();
  return info != nullptr && info->stream != nullptr;
}

tf::Allocator* OutputMemory(tf::OpKernelContext* ctx) {
  tf::AllocatorAttributes attributes;
  if (IsOnGpu(ctx)) return ctx->device()->GetAllocator(attributes);
  attributes.set_on_host(true);
  attributes.set_gpu_compatible(true);
  tf::Allocator* pinned = ctx->device()->GetAllocator(attributes);
  return pinned->GetMemoryType() == tf::AllocatorMemoryType::kHostPinned ? pinned : nullptr;
}

absl::Status OpenTfDevice(tf::OpKernelContext* ctx, std::shared_ptr<Device>* device) {
  if (!IsOnGpu(ctx)) {
    return ToTf(FailedPrecondition("a table in a GPU's memory must be made on a GPU. Received: " +
                                   ctx->device()->name()));
  }
  stream_executor::Stream* stream = ctx->device()->tensorflow_accelerator_device_info()->stream;
  // One per GPU, never destroyed: memory that an op allocates for one table may be reused for
  // another.
  static auto* mutex = new Mutex();
  static auto* devices = new std::map<stream_executor::Stream*, std::shared_ptr<Device>>();
  const MutexLock lock(*mutex);
  std::shared_ptr<Device>& of_gpu = (*devices)[stream];
  if (of_gpu == nullptr) {
    of_gpu = std::make_shared<TfDevice>(stream, OutputMemory(ctx));
  }
  *device = of_gpu;
  return absl::OkStatus();
}

}  // namespace keras_sparse
