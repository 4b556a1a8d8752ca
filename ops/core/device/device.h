// Device: a GPU as the core sees it.
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

// Pinned memory of the CPU that the GPU fills by itself, and the event that tells when it has.
struct PinnedBlock {
  void* data = nullptr;
  int64_t capacity = 0;   // bytes
  void* event = nullptr;  // a cudaEvent_t
};
struct HostCopy : PinnedBlock {
  explicit HostCopy(const PinnedBlock& block) : PinnedBlock(block) {}
  mutable std::atomic<bool> is_done{false};
};
class PinnedMemory;

// The memory of a GPU, and a stream of work that is done in order. Work is enqueued without
// waiting: freed memory is free for later work.
//
// If the GPU fails at anything except an allocation, an unknown part of its work was done. From
// then on all calls except Free return FailedPrecondition, with the first failure and the remedy;
// no more work is enqueued.
//
// Thread safety: any thread may enqueue work. The work of one thread is done in order; of the work
// of several threads, one kernel or copy runs at a time.
class Device {
 public:
  // Opens the GPU with this number, counted from 0, with its own stream and memory from CUDA's
  // pool. Returns FailedPrecondition if there is no such GPU.
  static Status Open(int ordinal, std::unique_ptr<Device>* device);

  virtual ~Device() = default;

  // CUDA's number of the GPU.
  int ordinal() const { return ordinal_; }
  // A cudaStream_t, which is a CUstream.
  void* stream() const { return stream_; }
  // Number of blocks of a kernel that keep the GPU busy, whatever the work.
  int64_t num_blocks() const;

  // Bytes of its memory that tables may use; 0 if unknown.
  virtual int64_t memory_bytes() const = 0;
  // Allocates undefined memory, aligned to at least 256 bytes. Returns ResourceExhausted, with the
  // requested size, if there is no room.
  virtual Status Allocate(int64_t bytes, void** memory) = 0;
  virtual void Free(void* memory) = 0;

  // `from` may be changed once this returns, unless it is pinned memory. If the GPU reads host
  // memory through the CPU's page tables, as on Grace Hopper, the call waits, because no driver
  // copies `from` first.
  Status CopyToDevice(const void* from, int64_t bytes, void* to);
  // Waits for all work enqueued so far.
  Status CopyToHost(const void* from, int64_t bytes, void* to);
  // Enqueues a copy to memory that returns to the device with the last reference to it.
  Status CopyToHostLater(const void* from, int64_t bytes, std::shared_ptr<const HostCopy>* copy);
  // Waits until such a copy is done, and returns the GPU's error if it has failed. Work enqueued
  // since goes on.
  Status WaitFor(const HostCopy& copy);
  Status Fill(void* memory, int byte, int64_t bytes);
  // Waits until all work enqueued so far is done, and returns its error.
  Status Wait();
  // Returns whether all kernels that this thread has enqueued could be started. Does not wait.
  Status CheckStarted();

  // Returns OK until the GPU has failed.
  Status CheckWorks() const {
    const MutexLock lock(mutex_);
    if (failure_.empty()) return Status::Ok();
    return FailedPrecondition(
        "GPU " + std::to_string(ordinal_) +
        " must do all its work, and what the tables in its memory hold is undefined since it has "
        "failed: end the process, and load the last checkpoint in a new one. Received: it " +
        failure_);
  }
  // Converts the result of a CUDA call; any error marks the GPU as failed.
  //   error  a cudaError_t
  //   what   the GPU could not do, such as "sort ids"
  Status ToStatus(int error, const char* what);

 protected:
  //   ordinal  CUDA's number of the GPU in this process
  Device(void* stream, int ordinal) : stream_(stream), ordinal_(ordinal) {}

  // Returns the error of an allocation when `free` bytes of `total` were available.
  //   what  describes the total
  static Status NoRoom(int64_t bytes, int64_t free, int64_t total, const std::string& what) {
    return ResourceExhausted(
        "a table must fit the GPU's memory; keep it in the CPU's, or give a dynamic one lower "
        "tiers and a smaller size of its first. Received: " +
        std::to_string(bytes) + " bytes more, where " + std::to_string(free) + " of " +
        std::to_string(total) + " bytes " + what + " are free");
  }

 private:
  // Returns a cudaDeviceAttr of the GPU; 0 if it cannot be read.
  int64_t Attribute(int attribute) const;

  void* const stream_;
  const int ordinal_;
  mutable Mutex mutex_;
  std::string failure_ GUARDED_BY(mutex_);  // the first failure
  std::shared_ptr<PinnedMemory> pinned_ GUARDED_BY(mutex_);
  // Cached once read.
  mutable std::atomic<int64_t> num_blocks_{0};
  mutable std::atomic<int64_t> reads_page_tables_{-1};
};

// During its lifetime, this thread's kernels may use the device: CUDA has a current device per
// thread. If the thread had none, the device stays current: CUDA would report GPU 0 as the previous
// one, and switching back would create a context on that GPU, which may belong to other ranks. A
// scope within another one calls the driver for nothing. The thread that opens a device needs none.
class DeviceScope {
 public:
  explicit DeviceScope(const Device& device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  bool switches_back_ = false;
  int before_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_H_
