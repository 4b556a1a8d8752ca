// Replacements of CUDA for kernels compiled without nvcc: their tests run on a CPU.
//
// Each lane of a block is a fiber. A lane yields at every operation of a warp or a block and, at
// random, at atomics. A seed decides the order of lanes and of blocks, so that a kernel that relies
// on lanes running in step, or on the order of blocks, fails in some run. To the thread sanitizer
// every lane is a thread of its own that only the kernel's barriers order: it finds the races of a
// GPU, including those between blocks. A GPU's memory is pages of the process on which the CPU
// faults outside of kernels and copies, one time in 32. Under sanitizers, which know where an
// allocation ends, it is ordinary memory.
//
// Declared here; defined in tests/ops/core/device/emulator.cc and emulated_memory.cc, which only
// tests link.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_EMULATED_DEVICE_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_EMULATED_DEVICE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

// NOLINTBEGIN(bugprone-reserved-identifier): these are CUDA's names.
#define __global__
#define __device__
#define __host__

namespace keras_sparse::emulated {

struct Index {
  unsigned x;
};

struct Options {
  uint64_t seed = 1;         // decides the order of lanes and blocks
  int num_threads = 1;       // threads that run blocks
  unsigned yield_every = 8;  // one atomic in this many yields
  // The GPU's bytes; the memory that a program allocates and frees is counted.
  size_t memory = size_t{64} << 20;
  int64_t allocations_left = INT64_MAX;  // allocations fail after these
  int64_t work_left = INT64_MAX;         // kernels and copies; afterwards the GPU has failed
};
Options& options();

// Counts the CPU's requests to the GPU so far. A call of CUB is one launch.
struct Counts {
  int64_t launches = 0;
  int64_t copies_to_device = 0;
  int64_t copies_to_host = 0;
  int64_t fills = 0;
  int64_t waits = 0;             // for all of the stream's work, as after most copies to the CPU
  int64_t waits_for_copies = 0;  // for one copy to the CPU, with later work going on
};
Counts& counts();
// Counts down the work left. Returns false once none is left.
bool DoesWork();
// As DoesWork, for a kernel.
bool StartsKernel();
// Returns whether a GPU is current in this thread.
bool ThreadHasContext();
// The GPUs that have been current in any thread, by bit.
std::atomic<unsigned>& gpus_with_contexts();

// The indexes and sizes of the calling lane.
Index ThreadIndex();
Index BlockIndex();
Index BlockSize();
Index GridSize();
void MaybeYield();
void SyncBlock();
// Every lane of the mask passes a value and gets the values of all: (32), by lane.
const uint64_t* Exchange(unsigned mask, uint64_t value);

// Returns one memory for all lanes of the block.
void* SharedMemory(size_t bytes);

// Exists while a kernel or a copy runs: one at a time, because all are enqueued on one stream.
class StreamTurn {
 public:
  StreamTurn();
  ~StreamTurn();
  StreamTurn(const StreamTurn&) = delete;
  StreamTurn& operator=(const StreamTurn&) = delete;
};

void RunBlocks(unsigned num_blocks, unsigned block, const std::function<void()>& lane);

}  // namespace keras_sparse::emulated

#define threadIdx (::keras_sparse::emulated::ThreadIndex())
#define blockIdx (::keras_sparse::emulated::BlockIndex())
#define blockDim (::keras_sparse::emulated::BlockSize())
#define gridDim (::keras_sparse::emulated::GridSize())

inline void __syncthreads() { keras_sparse::emulated::SyncBlock(); }
inline void __syncwarp(unsigned mask = ~0u) { keras_sparse::emulated::Exchange(mask, 0); }

template <typename T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a word or two");
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  const unsigned lane = threadIdx.x & 31;
  const auto lanes = static_cast<unsigned>(width);
  const unsigned source = (lane & ~(lanes - 1)) | (static_cast<unsigned>(from) & (lanes - 1));
  const uint64_t seen = keras_sparse::emulated::Exchange(mask, word)[source];
  std::memcpy(&value, &seen, sizeof(T));
  return value;
}

inline unsigned __ballot_sync(unsigned mask, bool predicate) {
  const uint64_t* seen = keras_sparse::emulated::Exchange(mask, predicate ? 1 : 0);
  unsigned lanes = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1) != 0 && seen[i] != 0) lanes |= 1u << i;
  }
  return lanes;
}

inline int __ffs(int number) { return __builtin_ffs(number); }

template <typename T>
T atomicMin(T* at, T value) {
  keras_sparse::emulated::MaybeYield();
  T seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < seen && !__atomic_compare_exchange_n(at, &seen, value, false, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
  }
  return seen;
}
template <typename T>
T atomicAdd(T* at, T value) {
  keras_sparse::emulated::MaybeYield();
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicExch(T* at, T value) {
  keras_sparse::emulated::MaybeYield();
  return __atomic_exchange_n(at, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicOr(T* at, T value) {
  keras_sparse::emulated::MaybeYield();
  return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicAnd(T* at, T value) {
  keras_sparse::emulated::MaybeYield();
  return __atomic_fetch_and(at, value, __ATOMIC_RELAXED);
}

// The calls of CUDA's runtime that device.cu and device_trace.cu make.
using cudaStream_t = void*;
using cudaError_t = int;
constexpr cudaError_t cudaSuccess = 0;
constexpr cudaError_t cudaErrorMemoryAllocation = 2;
constexpr cudaError_t cudaErrorIllegalAddress = 700;
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrPageableMemoryAccessUsesHostPageTables
};
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 1 : 0;
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t*) { return cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  const keras_sparse::emulated::StreamTurn turn;
  ++keras_sparse::emulated::counts().waits;
  return keras_sparse::emulated::options().work_left > 0 ? cudaSuccess : cudaErrorIllegalAddress;
}
// Work is done when it is enqueued: an event is a time of the CPU's clock.
using cudaEvent_t = std::chrono::steady_clock::time_point*;
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new std::chrono::steady_clock::time_point();
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  *event = std::chrono::steady_clock::now();
  return cudaSuccess;
}
constexpr unsigned cudaEventDisableTiming = 2;
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) {
  const keras_sparse::emulated::StreamTurn turn;
  ++keras_sparse::emulated::counts().waits_for_copies;
  return keras_sparse::emulated::options().work_left > 0 ? cudaSuccess : cudaErrorIllegalAddress;
}
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = std::chrono::duration<float, std::milli>(*end - *begin).count();
  return cudaSuccess;
}
// Returns the mangled name of a kernel, valid for the life of the process.
cudaError_t cudaFuncGetName(const char** name, const void* kernel);
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an illegal memory access";
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t) {
  const keras_sparse::emulated::StreamTurn turn;
  if (!keras_sparse::emulated::DoesWork()) return cudaErrorIllegalAddress;
  keras_sparse::emulated::Counts& counts = keras_sparse::emulated::counts();
  ++(kind == cudaMemcpyDeviceToHost ? counts.copies_to_host : counts.copies_to_device);
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* memory, int byte, size_t bytes, cudaStream_t) {
  const keras_sparse::emulated::StreamTurn turn;
  if (!keras_sparse::emulated::DoesWork()) return cudaErrorIllegalAddress;
  ++keras_sparse::emulated::counts().fills;
  if (bytes > 0) std::memset(memory, byte, bytes);
  return cudaSuccess;
}

inline cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
// NOLINTEND(bugprone-reserved-identifier)

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_EMULATED_DEVICE_H_
