#include <algorithm>
#include <string>

#include "ops/core/device/device.h"
#include "ops/core/device/device_code.h"

namespace keras_sparse {
namespace {

cudaStream_t StreamOf(const Device& device) { return static_cast<cudaStream_t>(device.stream()); }

// With memory from CUDA's pool, beside whatever else the process does with the GPU.
class PoolDevice : public Device {
 public:
  PoolDevice(cudaStream_t stream, int ordinal) : Device(stream, ordinal) {}
  ~PoolDevice() override { (void)cudaStreamDestroy(StreamOf(*this)); }

  int64_t memory_bytes() const override {
    size_t free = 0;
    size_t total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<int64_t>(total) : 0;
  }

  Status Allocate(int64_t bytes, void** memory) override {
    KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
    const cudaError_t error = cudaMallocAsync(memory, static_cast<size_t>(bytes), StreamOf(*this));
    if (error != cudaErrorMemoryAllocation) return ToStatus(error, "give memory");
    (void)cudaGetLastError();  // it has been seen
    size_t free = 0;
    size_t total = 0;
    (void)cudaMemGetInfo(&free, &total);
    return NoRoom(bytes, static_cast<int64_t>(free), static_cast<int64_t>(total), "of the GPU");
  }

  void Free(void* memory) override { (void)cudaFreeAsync(memory, StreamOf(*this)); }
};

}  // namespace

Status Device::Open(int ordinal, std::unique_ptr<Device>* device) {
  const auto check = [ordinal](cudaError_t error) {
    if (error == cudaSuccess) return Status::Ok();
    return FailedPrecondition("GPU " + std::to_string(ordinal) +
                              " could not be used. Received: " + cudaGetErrorString(error));
  };
  KERAS_SPARSE_RETURN_IF_ERROR(check(cudaSetDevice(ordinal)));
  cudaStream_t stream = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(check(cudaStreamCreate(&stream)));
  *device = std::make_unique<PoolDevice>(stream, ordinal);
  return Status::Ok();
}

Status Device::ToStatus(int error, const char* what) {
  if (error == cudaSuccess) return Status::Ok();
  {
    const MutexLock lock(mutex_);
    if (failure_.empty()) {
      failure_ = std::string("could not ") + what + ": " +
                 cudaGetErrorString(static_cast<cudaError_t>(error));
    }
  }
  return CheckWorks();
}

int64_t Device::num_blocks() const {
  if (num_blocks_ == 0) {
    int num_processors = 0;
    (void)cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, ordinal_);
    num_blocks_ = std::max(1, num_processors) * int64_t{cuda_impl::kBlocksPerProcessor};
  }
  return num_blocks_;
}

Status Device::CopyToDevice(const void* from, int64_t bytes, void* to) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
  return ToStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                                  StreamOf(*this)),
                  "be copied to");
}

Status Device::CopyToHost(const void* from, int64_t bytes, void* to) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
  KERAS_SPARSE_RETURN_IF_ERROR(ToStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                                                        cudaMemcpyDeviceToHost, StreamOf(*this)),
                                        "be copied from"));
  return Wait();
}

Status Device::Fill(void* memory, int byte, int64_t bytes) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
  return ToStatus(cudaMemsetAsync(memory, byte, static_cast<size_t>(bytes), StreamOf(*this)),
                  "be filled");
}

Status Device::Wait() {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
  KERAS_SPARSE_RETURN_IF_ERROR(
      ToStatus(cudaStreamSynchronize(StreamOf(*this)), "do what it was given"));
  return CheckStarted();
}

Status Device::CheckStarted() { return ToStatus(cudaGetLastError(), "start a kernel"); }

DeviceScope::DeviceScope(const Device& device) {
  (void)cudaGetDevice(&before_);
  (void)cudaSetDevice(device.ordinal());
}
DeviceScope::~DeviceScope() { (void)cudaSetDevice(before_); }

}  // namespace keras_sparse
