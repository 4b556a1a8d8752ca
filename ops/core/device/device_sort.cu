#include <string>

#include "ops/core/device/device_array.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/device/device_sort.h"

#ifdef __CUDACC__
#include <thrust/iterator/counting_iterator.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#else
#include <algorithm>
#endif

namespace keras_sparse::cuda_impl {
namespace {

#ifdef __CUDACC__

// Calls a CUB algorithm, which first reports the memory that it needs: call(memory, bytes).
template <typename Call>
Status CallCub(Device* device, const Call& call) {
  size_t bytes = 0;
  cudaError_t error = call(nullptr, bytes);
  DeviceArray<char> memory;
  if (error == cudaSuccess) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        DeviceArray<char>::Allocate(device, static_cast<int64_t>(bytes) + 1, &memory));
    error = call(memory.data(), bytes);
  }
  return device->ToStatus(error, "sort ids");
}

#else

Status StartSort(Device* device) {
  return device->ToStatus(emulated::StartsKernel() ? cudaSuccess : cudaErrorIllegalAddress,
                          "sort ids");
}

#endif

__global__ void CountKernel(uint32_t* places, int64_t n) {
  for (int64_t i = LaneOfKernel(); i < n; i += LanesOfKernel()) {
    places[i] = static_cast<uint32_t>(i);
  }
}

template <typename Number>
__global__ void MarkBeginsKernel(const Number* sorted, int64_t n, uint8_t* begins_run) {
  for (int64_t i = LaneOfKernel(); i < n; i += LanesOfKernel()) {
    begins_run[i] = i == 0 || sorted[i] != sorted[i - 1];
  }
}

template <typename Number>
Status SortWithPlaces(const Number* numbers, int64_t n, int num_bits, Device* device,
                      Number* sorted, uint32_t* places) {
  if (n == 0) return Status::Ok();
  DeviceArray<uint32_t> in_order;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, n, &in_order));
  Launch(CountKernel, BlocksFor(*device, n), kBlock, device->stream(), in_order.data(), n);
  const TraceScope trace("SortPairs", nullptr, device->stream());
#ifdef __CUDACC__
  return CallCub(device, [&](void* memory, size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(memory, bytes, numbers, sorted, in_order.data(), places,
                                           n, 0, num_bits,
                                           static_cast<cudaStream_t>(device->stream()));
  });
#else
  const emulated::StreamTurn turn;
  KERAS_SPARSE_RETURN_IF_ERROR(StartSort(device));
  const int all_bits = 8 * static_cast<int>(sizeof(Number));
  const Number bits = num_bits == all_bits ? ~Number{0} : (Number{1} << num_bits) - 1;
  std::copy_n(in_order.data(), n, places);
  std::stable_sort(places, places + n, [=](uint32_t a, uint32_t b) {
    return (numbers[a] & bits) < (numbers[b] & bits);
  });
  for (int64_t i = 0; i < n; ++i) sorted[i] = numbers[places[i]];
  return Status::Ok();
#endif
}

template <typename Number>
Status RunsOf(const Number* sorted, int64_t n, Device* device, uint32_t* begins,
              uint32_t* num_runs) {
  DeviceArray<uint8_t> begins_run;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint8_t>::Allocate(device, n, &begins_run));
  Launch(MarkBeginsKernel<Number>, BlocksFor(*device, n), kBlock, device->stream(), sorted, n,
         begins_run.data());
  return SelectPlaces(begins_run.data(), n, device, begins, num_runs);
}

}  // namespace

Status StableSort(const uint32_t* numbers, int64_t n, int num_bits, Device* device,
                  uint32_t* sorted, uint32_t* places) {
  return SortWithPlaces(numbers, n, num_bits, device, sorted, places);
}

Status StableSort(const int64_t* keys, int64_t n, Device* device, int64_t* sorted,
                  uint32_t* places) {
  return SortWithPlaces(keys, n, 64, device, sorted, places);
}

Status FindRuns(const uint32_t* sorted, int64_t n, Device* device, uint32_t* begins,
                uint32_t* num_runs) {
  return RunsOf(sorted, n, device, begins, num_runs);
}

Status FindRuns(const int64_t* sorted, int64_t n, Device* device, uint32_t* begins,
                uint32_t* num_runs) {
  return RunsOf(sorted, n, device, begins, num_runs);
}

Status SelectPlaces(const uint8_t* are_chosen, int64_t n, Device* device, uint32_t* places,
                    uint32_t* num_chosen) {
  if (n == 0) return device->Fill(num_chosen, 0, sizeof(*num_chosen));
  const TraceScope trace("Flagged", nullptr, device->stream());
#ifdef __CUDACC__
#if CUB_VERSION < 300000
  if (n > INT32_MAX) {  // CUB would truncate the number
    return InvalidArgument("an op of more than 2^31 ids needs a build by CUDA 13. Received: " +
                           std::to_string(n) + " ids");
  }
#endif
  return CallCub(device, [&](void* memory, size_t& bytes) {
    return cub::DeviceSelect::Flagged(memory, bytes, thrust::counting_iterator<uint32_t>(0),
                                      are_chosen, places, num_chosen, n,
                                      static_cast<cudaStream_t>(device->stream()));
  });
#else
  const emulated::StreamTurn turn;
  KERAS_SPARSE_RETURN_IF_ERROR(StartSort(device));
  *num_chosen = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (are_chosen[i] != 0) places[(*num_chosen)++] = static_cast<uint32_t>(i);
  }
  return Status::Ok();
#endif
}

}  // namespace keras_sparse::cuda_impl
