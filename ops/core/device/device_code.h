// Kernels from one source: compiled by nvcc for a GPU, and by any C++ compiler for tests.
//
// A .cu file includes this header and uses CUDA's names, with three rules: kernels are started by
// Launch, lanes that work together are named by a mask, and a kernel never waits for another block.
// Without nvcc, emulated_device.h defines these names.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_CODE_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_CODE_H_

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "ops/core/device/emulated_device.h"
#endif

#include "ops/core/device/device_trace.h"

namespace keras_sparse::cuda_impl {

constexpr int kWarp = 32;

// Blocks that keep a processor busy while lanes of other blocks wait for memory. Fibers do not
// wait, and are created for each block.
#ifdef __CUDACC__
constexpr int kBlocksPerProcessor = 16;
#else
constexpr int kBlocksPerProcessor = 3;
#endif

// Starts blocks of `block` lanes each on the stream. With no blocks, starts no kernel.
template <typename... Parameters, typename... Arguments>
void Launch(void (*kernel)(Parameters...), int64_t num_blocks, int block, void* stream,
            Arguments... arguments) {
  if (num_blocks <= 0) return;
  const TraceScope trace("a kernel", reinterpret_cast<const void*>(kernel), stream);
#ifdef __CUDACC__
  kernel<<<static_cast<unsigned>(num_blocks), static_cast<unsigned>(block), 0,
           static_cast<cudaStream_t>(stream)>>>(arguments...);
#else
  emulated::RunBlocks(static_cast<unsigned>(num_blocks), static_cast<unsigned>(block),
                      [&] { kernel(arguments...); });
#endif
}

// The number of this lane in the kernel, and the number of lanes.
__device__ inline int64_t LaneOfKernel() {
  return int64_t{blockIdx.x} * int64_t{blockDim.x} + int64_t{threadIdx.x};
}
__device__ inline int64_t LanesOfKernel() { return int64_t{gridDim.x} * int64_t{blockDim.x}; }

// `kLanes` neighbouring lanes of a warp that work together: a power of two.
template <int kLanes>
struct Tile {
  static_assert(kLanes > 0 && kLanes <= kWarp && (kLanes & (kLanes - 1)) == 0, "parts of a warp");

  // The number of this lane in its tile.
  __device__ static int Lane() { return static_cast<int>(threadIdx.x) & (kLanes - 1); }
  // The number of this tile in the kernel, and the number of tiles.
  __device__ static int64_t Number() { return LaneOfKernel() / kLanes; }
  __device__ static int64_t Count() { return LanesOfKernel() / kLanes; }
  __device__ static unsigned Mask() { return kFirstTile << FirstLane(); }
  // Returns the value of lane `from`. Must be called by all lanes of the tile.
  template <typename T>
  __device__ static T FromLane(T value, int from) {
    return __shfl_sync(Mask(), value, from, kLanes);
  }
  // Returns the lanes whose argument is true, by bit. Must be called by all lanes of the tile.
  __device__ static unsigned Ballot(bool is_true) {
    return __ballot_sync(Mask(), is_true) >> FirstLane() & kFirstTile;
  }

 private:
  static constexpr unsigned kFirstTile = kLanes == kWarp ? ~0u : (1u << (kLanes % kWarp)) - 1;
  // Number of the tile's first lane in its warp.
  __device__ static unsigned FirstLane() {
    return threadIdx.x & static_cast<unsigned>(kWarp - kLanes);
  }
};

// Memory that the lanes of a block share: one object per kernel, with undefined content.
template <typename T>
__device__ T& SharedOfBlock() {
#ifdef __CUDACC__
  __shared__ T shared;
  return shared;
#else
  return *static_cast<T*>(emulated::SharedMemory(sizeof(T)));
#endif
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_CODE_H_
