#include <algorithm>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/device/device_sort.h"
#include "ops/core/ids/missing_keys.h"
#include "ops/core/index/hbm_row.h"

namespace keras_sparse::cuda_impl {
namespace {

__global__ void MarkMissingKernel(const uint32_t* rows, int64_t n, uint8_t* are_missing) {
  for (int64_t i = LaneOfKernel(); i < n; i += LanesOfKernel())
    are_missing[i] = rows[i] == kNoHbmRow;
}

template <typename T>
__global__ void TakeKernel(const T* from, const uint32_t* places, int64_t n, T* to) {
  for (int64_t i = LaneOfKernel(); i < n; i += LanesOfKernel()) to[i] = from[places[i]];
}

// As the kernel above, for a count that only the device knows.
__global__ void TakeFirstOfRunsKernel(const int64_t* sorted, const uint32_t* begins,
                                      const uint32_t* num_runs, int64_t* keys) {
  for (int64_t i = LaneOfKernel(); i < int64_t{*num_runs}; i += LanesOfKernel()) {
    keys[i] = sorted[begins[i]];
  }
}

template <typename T>
void Take(const T* from, const DeviceArray<uint32_t>& places, int64_t n, Device* device, T* to) {
  Launch(TakeKernel<T>, BlocksFor(*device, n), kBlock, device->stream(), from, places.data(), n,
         to);
}

}  // namespace

Status MissingKeys::Find(const std::vector<FoundIds>& lists, Device* device,
                         std::vector<MissingKeys>* missing) {
  std::vector<std::vector<FoundIds>> tables;
  int64_t num_missing = 0;
  for (const FoundIds& list : lists) {
    if (!list.same_table) tables.emplace_back();
    if (list.num_missing > 0) tables.back().push_back(list);
    num_missing += list.num_missing;
  }
  std::vector<MissingKeys> made(tables.size());
  for (MissingKeys& each : made) each.device_ = device;
  DeviceArray<uint32_t> num_runs;
  std::vector<uint32_t> sizes;
  if (num_missing > 0) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        DeviceArray<uint32_t>::Copy(device, std::vector<uint32_t>(tables.size(), 0), &num_runs));
    for (size_t t = 0; t < tables.size(); ++t) {
      if (tables[t].empty()) continue;
      KERAS_SPARSE_RETURN_IF_ERROR(made[t].Sort(tables[t], num_runs.data() + t));
    }
    KERAS_SPARSE_RETURN_IF_ERROR(num_runs.Read(&sizes));
    for (size_t t = 0; t < tables.size(); ++t) made[t].size_ = sizes[t];
  }
  *missing = std::move(made);
  return Status::Ok();
}

Status MissingKeys::Sort(const std::vector<FoundIds>& lists, uint32_t* num_runs) {
  int64_t longest = 0;
  for (const FoundIds& list : lists) {
    num_ids_ += list.num_missing;
    longest = std::max(longest, list.n);
  }
  DeviceArray<uint8_t> are_missing;
  DeviceArray<uint32_t> taken;
  DeviceArray<int64_t> ids;
  DeviceArray<int64_t> sorted;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint8_t>::Allocate(device_, longest, &are_missing));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device_, num_ids_, &taken));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Allocate(device_, num_ids_, &ids));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Allocate(device_, num_ids_, &sorted));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Allocate(device_, num_ids_, &keys_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device_, num_ids_, &places_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device_, num_ids_, &begins_));
  int64_t* next = ids.data();
  for (const FoundIds& list : lists) {
    Launch(MarkMissingKernel, BlocksFor(*device_, list.n), kBlock, device_->stream(), list.rows,
           list.n, are_missing.data());
    KERAS_SPARSE_RETURN_IF_ERROR(
        SelectPlaces(are_missing.data(), list.n, device_, taken.data(), num_runs));
    Take(list.ids, taken, list.num_missing, device_, next);
    next += list.num_missing;
  }
  // In order of arrival, so that the first of equal ids is also the first to arrive.
  KERAS_SPARSE_RETURN_IF_ERROR(
      StableSort(ids.data(), num_ids_, device_, sorted.data(), places_.data()));
  KERAS_SPARSE_RETURN_IF_ERROR(
      FindRuns(sorted.data(), num_ids_, device_, begins_.data(), num_runs));
  Launch(TakeFirstOfRunsKernel, BlocksFor(*device_, num_ids_), kBlock, device_->stream(),
         sorted.data(), begins_.data(), num_runs, keys_.data());
  return Status::Ok();
}

Status MissingKeys::ReadKeys(std::vector<int64_t>* keys) const {
  return keys_.ReadFirst(size_, keys);
}

Status MissingKeys::ReadCounts(std::vector<int64_t>* counts) const {
  std::vector<uint32_t> begins;
  KERAS_SPARSE_RETURN_IF_ERROR(begins_.ReadFirst(size_, &begins));
  counts->resize(begins.size());
  int64_t end = num_ids_;
  for (size_t i = begins.size(); i > 0; --i) {
    (*counts)[i - 1] = end - int64_t{begins[i - 1]};
    end = begins[i - 1];
  }
  return Status::Ok();
}

Status MissingKeys::ReadArrivals(std::vector<uint32_t>* places) const {
  DeviceArray<uint32_t> firsts;
  DeviceArray<uint32_t> sorted;
  DeviceArray<uint32_t> arrivals;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device_, size_, &firsts));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device_, size_, &sorted));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device_, size_, &arrivals));
  Take(static_cast<const uint32_t*>(places_.data()), begins_, size_, device_, firsts.data());
  KERAS_SPARSE_RETURN_IF_ERROR(
      StableSort(firsts.data(), size_, BitsOf(num_ids_), device_, sorted.data(), arrivals.data()));
  return arrivals.ReadFirst(size_, places);
}

}  // namespace keras_sparse::cuda_impl
