// The requests of an op as one row of bags, or of ids, for a kernel to share out.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_REQUESTS_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_REQUESTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/core/device/device_array.h"
#include "ops/core/device/device_code.h"

namespace keras_sparse::cuda_impl {

// The place of the last of n rising numbers that is not above `most`; 0 if all are.
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

// Which of several parts that lie one after the other something is in.
struct Parts {
  const int64_t* firsts;  // (num_parts + 1), of each part among all; they rise from 0
  int num_parts;

  __device__ int64_t size() const { return firsts[num_parts]; }

  // The last part that begins at `i` or before.
  __device__ int Find(int64_t i) const {
    return static_cast<int>(LastAtMost(firsts, int64_t{num_parts}, i));
  }
};

// Requests, cut into parts by a count of each.
template <typename Request>
struct Requests {
  const Request* requests;  // (parts.num_parts)
  Parts parts;
};

// Both in the device's memory, for as long as it takes to give it work on them.
template <typename Request>
class RequestsOnDevice {
 public:
  //   sizes  one a request
  static Status Copy(Device* device, const std::vector<Request>& requests,
                     const std::vector<int64_t>& sizes, RequestsOnDevice* to) {
    std::vector<int64_t> firsts = {0};
    for (const int64_t size : sizes) firsts.push_back(firsts.back() + size);
    to->size_ = firsts.back();
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<Request>::Copy(device, requests, &to->requests_));
    return DeviceArray<int64_t>::Copy(device, firsts, &to->firsts_);
  }

  // Of all parts.
  int64_t size() const { return size_; }
  Requests<Request> view() const {
    return {requests_.data(), {firsts_.data(), static_cast<int>(requests_.size())}};
  }

 private:
  DeviceArray<Request> requests_;
  DeviceArray<int64_t> firsts_;
  int64_t size_ = 0;
};

// Lanes of a block, where a kernel has no reason for another number.
constexpr int kBlock = 128;

// Blocks of kBlock lanes for so many tiles, or as many as keep the device busy.
inline int64_t BlocksFor(const Device& device, int64_t num_tiles, int lanes = 1) {
  return std::min(device.num_blocks(), (num_tiles * lanes + kBlock - 1) / kBlock);
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_REQUESTS_H_
