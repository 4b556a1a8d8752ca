// The memory and the stream of the emulated GPU: ops/core/device/emulated_device.h.
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "ops/core/device/emulated_device.h"

namespace {

std::atomic<size_t> held{0};
std::mutex stream;
constexpr size_t kHeader = 256;  // of an allocation: its size
constexpr int kNone = -1;
thread_local int current = kNone;  // the GPU of this thread
std::atomic<unsigned> contexts{0};

}  // namespace

keras_sparse::emulated::StreamTurn::StreamTurn() { stream.lock(); }
keras_sparse::emulated::StreamTurn::~StreamTurn() { stream.unlock(); }

// REQUIRES: a turn of the stream
bool keras_sparse::emulated::DoesWork() {
  if (options().work_left <= 0) return false;
  --options().work_left;
  return true;
}

bool keras_sparse::emulated::ThreadHasContext() { return current != kNone; }
std::atomic<unsigned>& keras_sparse::emulated::gpus_with_contexts() { return contexts; }

// As of CUDA 12, it makes a context where there is none.
cudaError_t cudaSetDevice(int device) {
  current = device;
  contexts |= 1u << device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current == kNone ? 0 : current;
  return cudaSuccess;
}

// As a GPU's: aligned to 256 bytes, of no defined content.
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t /*stream*/) {
  const keras_sparse::emulated::StreamTurn turn;
  keras_sparse::emulated::Options& options = keras_sparse::emulated::options();
  if (options.work_left <= 0) return cudaErrorIllegalAddress;
  if (bytes > options.memory - held || options.allocations_left <= 0) {
    return cudaErrorMemoryAllocation;
  }
  --options.allocations_left;
  void* block = nullptr;
  if (posix_memalign(&block, kHeader, bytes + kHeader) != 0) return cudaErrorMemoryAllocation;
  std::memcpy(block, &bytes, sizeof(bytes));
  held += bytes;
  *memory = static_cast<char*>(block) + kHeader;
  std::memset(*memory, 0xCD, bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t /*stream*/) {
  if (memory == nullptr) return cudaSuccess;
  void* block = static_cast<char*>(memory) - kHeader;
  size_t bytes;
  std::memcpy(&bytes, block, sizeof(bytes));
  held -= bytes;
  std::free(block);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = keras_sparse::emulated::options().memory;
  *free = *total - held;
  return cudaSuccess;
}
