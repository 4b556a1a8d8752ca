#include <algorithm>
#include <string>
#include <vector>

#include "ops/core/device/device.h"
#include "ops/core/device/device_code.h"

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

// Blocks of pinned memory that no copy uses: CUDA waits for all work when it gives or takes some.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() {
    for (const PinnedBlock& each : unused_) {
      (void)cudaEventDestroy(static_cast<cudaEvent_t>(each.event));
      (void)cudaFreeHost(each.data);
    }
  }

  cudaError_t Take(int64_t bytes, PinnedBlock* block) {
    {
      const MutexLock lock(mutex_);
      const auto fits = std::find_if(unused_.begin(), unused_.end(), [&](const PinnedBlock& each) {
        return each.capacity >= bytes;
      });
      if (fits != unused_.end()) {
        *block = *fits;
        unused_.erase(fits);
        return cudaSuccess;
      }
    }
    cudaEvent_t event = nullptr;
    block->capacity = std::max(bytes, kLeastBytes);
    cudaError_t error = cudaMallocHost(&block->data, static_cast<size_t>(block->capacity));
    if (error != cudaSuccess) return error;
    error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error != cudaSuccess) (void)cudaFreeHost(block->data);
    block->event = event;
    return error;
  }
  void Return(const PinnedBlock& block) {
    const MutexLock lock(mutex_);
    unused_.push_back(block);
  }

 private:
  static constexpr int64_t kLeastBytes = 4096;

  Mutex mutex_;
  std::vector<PinnedBlock> unused_ GUARDED_BY(mutex_);
};

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

Status Device::CopyToHostLater(const void* from, int64_t bytes,
                               std::shared_ptr<const HostCopy>* copy) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
  std::shared_ptr<PinnedMemory> pinned;
  {
    const MutexLock lock(mutex_);
    if (pinned_ == nullptr) pinned_ = std::make_shared<PinnedMemory>();
    pinned = pinned_;
  }
  PinnedBlock block;
  if (const cudaError_t error = pinned->Take(bytes, &block); error != cudaSuccess) {
    (void)cudaGetLastError();  // clears the error, which is handled
    return ResourceExhausted("the process must have room for " + std::to_string(bytes) +
                             " bytes of pinned memory. Received: " + cudaGetErrorString(error));
  }
  copy->reset(new HostCopy(block), [pinned](const HostCopy* each) {
    pinned->Return(*each);  // a later copy to it is enqueued behind this one
    delete each;
  });
  KERAS_SPARSE_RETURN_IF_ERROR(
      ToStatus(Copy(from, bytes, cudaMemcpyDeviceToHost, *this, block.data), "be copied from"));
  return ToStatus(cudaEventRecord(static_cast<cudaEvent_t>(block.event), StreamOf(*this)),
                  "record an event");
}

Status Device::WaitFor(const HostCopy& copy) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckWorks());
  if (copy.is_done) return Status::Ok();
  const TraceScope trace("wait for a copy");
  KERAS_SPARSE_RETURN_IF_ERROR(
      ToStatus(cudaEventSynchronize(static_cast<cudaEvent_t>(copy.event)), "do what it was given"));
  copy.is_done = true;
  return CheckStarted();
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

DeviceScope::DeviceScope(const Device& device) {
  const bool had_context = ThreadHasContext();
  int before = device.ordinal();
  if (had_context) (void)cudaGetDevice(&before);
  switches_back_ = before != device.ordinal();
  before_ = before;
  if (!had_context || switches_back_) (void)cudaSetDevice(device.ordinal());
}
DeviceScope::~DeviceScope() {
  if (switches_back_) (void)cudaSetDevice(before_);
}

}  // namespace keras_sparse
