#include <algorithm>
#include <string>

#include "ops/core/device/device.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_trace.h"

#ifdef __CUDACC__
#include <cuda.h>
#endif

namespace keras_sparse {
namespace {

cudaStream_t StreamOf(const Device& device) { return static_cast<cudaStream_t>(device.stream()); }

cudaError_t Copy(const void* from, int64_t bytes, cudaMemcpyKind kind, const Device& device,
                 void* to) {
  const TraceScope trace(kind == cudaMemcpyHostToDevice ? "copy to the GPU" : "copy from the GPU",
                         nullptr, device.stream(), bytes);
  return cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, StreamOf(device));
}

// Allocates from CUDA's pool, beside the process's other uses of the GPU.
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
    (void)cudaGetLastError();  // clears the error, which is handled
    size_t free = 0;
    size_t total = 0;
    (void)cudaMemGetInfo(&free, &total);
    return NoRoom(bytes, static_cast<int64_t>(free), static_cast<int64_t>(total), "of the GPU");
  }

  void Free(void* memory) override { (void)cudaFreeAsync(memory, StreamOf(*this)); }
};

// Asks the driver, which CUDA's runtime has loaded, because no runtime call reports it.
bool ThreadHasContext() {
#ifdef __CUDACC__
  using GetCurrent = CUresult (*)(CUcontext*);
  static const auto get_current = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    constexpr unsigned kSince = 4000;  // CUDA's version
    (void)cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &found, kSince, cudaEnableDefault,
                                           &result);
#else
    (void)cudaGetDriverEntryPoint("cuCtxGetCurrent", &found, cudaEnableDefault, &result);
#endif
    return result == cudaDriverEntryPointSuccess ? reinterpret_cast<GetCurrent>(found) : nullptr;
  }();
  CUcontext context = nullptr;
  return get_current != nullptr && get_current(&context) == CUDA_SUCCESS && context != nullptr;
#else
  return emulated::ThreadHasContext();
#endif
}

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
    const int64_t num_processors = Attribute(cudaDevAttrMultiProcessorCount);
    num_blocks_ = std::max<int64_t>(1, num_processors) * cuda_impl::kBlocksPerProcessor;
  }
  return num_blocks_;
}

int64_t Device::Attribute(int attribute) const {
  int value = 0;
  const cudaError_t error =
      cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(attribute), ordinal_);
  if (error == cudaSuccess) return value;
  (void)cudaGetLastError();  // clears the error, which is handled and is not a kernel's
  return 0;
}

Status Device::CopyToDevice(const void* from, int64_t bytes, void* to) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
  KERAS_SPARSE_RETURN_IF_ERROR(
      ToStatus(Copy(from, bytes, cudaMemcpyHostToDevice, *this, to), "be copied to"));
  if (reads_page_tables_ < 0) {
    reads_page_tables_ = Attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables);
  }
  return reads_page_tables_ > 0 ? Wait() : Status::Ok();
}

Status Device::CopyToHost(const void* from, int64_t bytes, void* to) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
  KERAS_SPARSE_RETURN_IF_ERROR(
      ToStatus(Copy(from, bytes, cudaMemcpyDeviceToHost, *this, to), "be copied from"));
  return Wait();
}

Status Device::Fill(void* memory, int byte, int64_t bytes) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
  const TraceScope trace("fill", nullptr, stream_, bytes);
  return ToStatus(cudaMemsetAsync(memory, byte, static_cast<size_t>(bytes), StreamOf(*this)),
                  "be filled");
}

Status Device::Wait() {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
  const TraceScope trace("wait");
  KERAS_SPARSE_RETURN_IF_ERROR(
      ToStatus(cudaStreamSynchronize(StreamOf(*this)), "do what it was given"));
  return CheckStarted();
}

Status Device::CheckStarted() { return ToStatus(cudaGetLastError(), "start a kernel"); }

DeviceScope::DeviceScope(const Device& device) : had_context_(ThreadHasContext()) {
  if (had_context_) (void)cudaGetDevice(&before_);
  (void)cudaSetDevice(device.ordinal());
}
DeviceScope::~DeviceScope() {
  if (had_context_) (void)cudaSetDevice(before_);
}

}  // namespace keras_sparse
