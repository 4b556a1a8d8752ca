// A GPU as the core sees it.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ops/core/base/status.h"

namespace keras_sparse {

// Memory of a GPU, and a stream of work on it that is done in the order in which it was given.
// Work is given without waiting for it: memory that is freed is free for the work after it.
//
// Thread safety: one thread at a time gives work to a stream.
class Device {
 public:
  // The GPU of this number, from 0 on, with a stream of its own and memory from CUDA's pool.
  // FailedPrecondition if there is none.
  static Status Open(int ordinal, std::unique_ptr<Device>* device);

  virtual ~Device() = default;

  // A cudaStream_t, which is a CUstream.
  void* stream() const { return stream_; }
  // Blocks of a kernel that keep the GPU busy, whatever there is to do.
  int64_t num_blocks() const { return num_blocks_; }

  // At least 256 bytes of alignment; no defined content.
  // ResourceExhausted, with what was asked for, if there is no room.
  virtual Status Allocate(int64_t bytes, void** memory) = 0;
  virtual void Free(void* memory) = 0;

  // `from` may be changed as soon as this returns, unless it is pinned memory.
  Status CopyToDevice(const void* from, int64_t bytes, void* to);
  // Waits for all work so far.
  Status CopyToHost(const void* from, int64_t bytes, void* to);
  Status Fill(void* memory, int byte, int64_t bytes);
  // Until all work so far is done. Gives what has gone wrong in it.
  Status Wait();

 protected:
  Device(void* stream, int64_t num_blocks) : stream_(stream), num_blocks_(num_blocks) {}

 private:
  void* const stream_;
  const int64_t num_blocks_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_H_
