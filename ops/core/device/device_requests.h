// Requests: the requests of an op as one sequence of bags or ids that a kernel divides.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_REQUESTS_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_REQUESTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/core/device/arrays_on_device.h"
#include "ops/core/device/device_code.h"

namespace keras_sparse::cuda_impl {

// Returns the position of the last of n increasing numbers that is at most `most`; 0 if all are
// above.
template <typename Number>
__device__ inline int64_t LastAtMost(const Number* numbers, int64_t n, int64_t most) {
  int64_t low = 0;
  int64_t high = n - 1;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (static_cast<int64_t>(numbers[middle]) <= most) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Consecutive parts of a sequence.
struct Parts {
  const int64_t* firsts;  // (num_parts + 1) start of each part in the sequence; increasing from 0
  int num_parts;

  __device__ int64_t size() const { return firsts[num_parts]; }

  // Returns the last part that starts at or before `i`.
  __device__ int Find(int64_t i) const {
    return static_cast<int>(LastAtMost(firsts, int64_t{num_parts}, i));
  }
};

// Requests as parts of a sequence, each with its count.
template <typename Request>
struct Requests {
  const Request* requests;  // (parts.num_parts)
  Parts parts;
};

// A copy of both in the device's memory, until the work on them is enqueued.
template <typename Request>
class RequestsOnDevice {
 public:
  //   sizes  one per request
  static Status Copy(Device* device, const std::vector<Request>& requests,
                     const std::vector<int64_t>& sizes, RequestsOnDevice* to) {
    std::vector<int64_t> firsts = {0};
    for (const int64_t size : sizes) firsts.push_back(firsts.back() + size);
    to->size_ = firsts.back();
    to->view_.parts.num_parts = static_cast<int>(requests.size());
    to->arrays_.Add(requests, &to->view_.requests);
    to->arrays_.Add(firsts, &to->view_.parts.firsts);
    return to->arrays_.Copy(device);
  }

  // Size of all parts.
  int64_t size() const { return size_; }
  Requests<Request> view() const { return view_; }

 private:
  ArraysOnDevice arrays_;
  Requests<Request> view_ = {};
  int64_t size_ = 0;
};

// Default number of lanes per block.
constexpr int kBlock = 128;

// Blocks of kBlock lanes for `num_tiles` tiles, or as many as keep the device busy.
inline int64_t BlocksFor(const Device& device, int64_t num_tiles, int lanes = 1) {
  return std::min(device.num_blocks(), (num_tiles * lanes + kBlock - 1) / kBlock);
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_REQUESTS_H_
