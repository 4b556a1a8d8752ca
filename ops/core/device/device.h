// A GPU as the core sees it.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"

namespace keras_sparse {

// Memory of a GPU, and a stream of work on it that is done in the order in which it was given.
// Work is given without waiting for it: memory that is freed is free for the work after it.
//
// A GPU that has failed to do anything but to find room has done some of its work, nobody knows
// which. From then on all calls but Free give FailedPrecondition, which says so, what failed first
// and what there is to do; no work is given to it any more.
//
// Thread safety: any thread may give work. What one thread gives is done in its order, and of what
// several give one kernel or copy is done at a time.
class Device {
 public:
  // The GPU of this number, from 0 on, with a stream of its own and memory from CUDA's pool.
  // FailedPrecondition if there is none.
  static Status Open(int ordinal, std::unique_ptr<Device>* device);

  virtual ~Device() = default;

  // CUDA's number of the GPU.
  int ordinal() const { return ordinal_; }
  // A cudaStream_t, which is a CUstream.
  void* stream() const { return stream_; }
  // Blocks of a kernel that keep the GPU busy, whatever there is to do.
  int64_t num_blocks() const;

  // What tables may have of its memory; 0 if that is not known.
  virtual int64_t memory_bytes() const = 0;
  // At least 256 bytes of alignment; no defined content.
  // ResourceExhausted, with what was asked for, if there is no room.
  virtual Status Allocate(int64_t bytes, void** memory) = 0;
  virtual void Free(void* memory) = 0;

  // `from` may be changed as soon as this returns, unless it is pinned memory. A GPU that reads the
  // CPU's memory by its page tables, as on Grace Hopper, is waited for: no driver copies it first.
  Status CopyToDevice(const void* from, int64_t bytes, void* to);
  // Waits for all work so far.
  Status CopyToHost(const void* from, int64_t bytes, void* to);
  Status Fill(void* memory, int byte, int64_t bytes);
  // Until all work so far is done. Gives what has gone wrong in it.
  Status Wait();
  // Whether all kernels that this thread has given it could be started. Waits for nothing.
  Status CheckStarted();

  // Ok until it has failed.
  Status CheckWorks() const {
    const MutexLock lock(mutex_);
    if (failure_.empty()) return Status::Ok();
    return FailedPrecondition(
        "GPU " + std::to_string(ordinal_) +
        " must do all its work, and what the tables in its memory hold is undefined since it has "
        "failed: end the process, and load the last checkpoint in a new one. Received: it " +
        failure_);
  }
  // What a call of CUDA has given: with an error the GPU has failed.
  //   error  a cudaError_t
  //   what   the GPU could not, such as "sort ids"
  Status ToStatus(int error, const char* what);

 protected:
  //   ordinal  of the GPU, as CUDA counts them in this process
  Device(void* stream, int ordinal) : stream_(stream), ordinal_(ordinal) {}

  // The error of an allocation of which `free` bytes of `total` were there.
  //   what  the total is of
  static Status NoRoom(int64_t bytes, int64_t free, int64_t total, const std::string& what) {
    return ResourceExhausted(
        "a table must fit the GPU's memory; keep it in the CPU's, or give a dynamic one lower "
        "tiers and a smaller size of its first. Received: " +
        std::to_string(bytes) + " bytes more, where " + std::to_string(free) + " of " +
        std::to_string(total) + " bytes " + what + " are free");
  }

 private:
  // A cudaDeviceAttr of the GPU; 0 if it cannot be asked.
  int64_t Attribute(int attribute) const;

  void* const stream_;
  const int ordinal_;
  mutable Mutex mutex_;
  std::string failure_ GUARDED_BY(mutex_);  // the first one
  // Once they have been asked for.
  mutable std::atomic<int64_t> num_blocks_{0};
  mutable std::atomic<int64_t> reads_page_tables_{-1};
};

// While it lives, kernels that its thread starts may be for this device: CUDA has a current one a
// thread. Of the thread that had none it stays the current one: CUDA would say that this was GPU 0,
// and to go back there would make a context on that GPU, which other ranks may have for themselves.
// The thread that opens a device needs none.
class DeviceScope {
 public:
  explicit DeviceScope(const Device& device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const bool had_context_;
  int before_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_H_
