#include <algorithm>
#include <string>
#include <utility>

#include "ops/core/base/hash.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/operations/found_rows.h"

namespace keras_sparse::cuda_impl {
namespace {

// An id without a row, and where it came.
struct MissingId {
  int64_t place;
  int64_t id;
};

__global__ void CollectMissingKernel(const int64_t* ids, const uint32_t* rows, int64_t n,
                                     unsigned long long* num_missing, MissingId* missing) {
  for (int64_t i = LaneOfKernel(); i < n; i += LanesOfKernel()) {
    if (rows[i] == kNoHbmRow) missing[atomicAdd(num_missing, 1ull)] = {i, ids[i]};
  }
}

// Rows that an import has brought and the GPU had no room for are out of a kernel's sight.
Status CheckAllAreThere(const TableState& state) {
  const int64_t num_rows = state.tiers.first_tier().num_rows();
  if (num_rows == 0) return Status::Ok();
  return ResourceExhausted("the GPU must have room for all rows of table '" + state.options.name +
                           "'; erase rows or evict some, or import again. Received: " +
                           std::to_string(num_rows) + " rows that wait for room");
}

}  // namespace

Status FoundRows::Find(const std::vector<DeviceIds>& lists, Device* device, FoundRows* found) {
  FoundRows made;
  made.device_ = device;
  made.lists_ = lists;
  int64_t num_ids = 0;
  for (const DeviceIds& each : lists) num_ids += each.num_ids;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, num_ids, &made.rows_));
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<IdChecks>::Copy(device, std::vector<IdChecks>(lists.size()), &made.checks_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Copy(device, {0}, &made.any_refused_));
  uint32_t* rows = made.rows_.data();
  for (size_t i = 0; i < lists.size(); ++i) {
    const TableState& state = *lists[i].state;
    KERAS_SPARSE_RETURN_IF_ERROR(CheckAllAreThere(state));
    const HbmStore& store = *state.tiers.hbm_store();
    const HbmTable table = {store.records_view(),
                            state.options.output_dim,
                            state.options.is_dynamic(),
                            store.index_view(),
                            state.options.out_of_range_is_zero,
                            state.gate.default_rows().rows(),
                            made.checks_.data() + i};
    made.requests_.push_back({table, lists[i].ids, lists[i].num_ids, rows});
    rows += lists[i].num_ids;
  }
  KERAS_SPARSE_RETURN_IF_ERROR(FindRows(made.requests_, made.any_refused_.data(), device));
  *found = std::move(made);
  return Status::Ok();
}

Status FoundRows::Check(std::vector<IdChecks>* checks) const {
  KERAS_SPARSE_RETURN_IF_ERROR(checks_.Read(checks));
  for (size_t i = 0; i < lists_.size(); ++i) {
    const TableOptions& options = lists_[i].state->options;
    KERAS_SPARSE_RETURN_IF_ERROR((*checks)[i].ToStatus(options.name, options.input_dim));
  }
  return Status::Ok();
}

Status FoundRows::ReadMissing(size_t list, MissingIds* missing) const {
  const FindRequest& request = requests_[list];
  DeviceArray<unsigned long long> num_missing;
  DeviceArray<MissingId> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<unsigned long long>::Copy(device_, {0}, &num_missing));
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<MissingId>::Allocate(device_, request.num_ids, &on_device));
  Launch(CollectMissingKernel, BlocksFor(*device_, request.num_ids), kBlock, device_->stream(),
         request.ids, request.rows, request.num_ids, num_missing.data(), on_device.data());
  std::vector<unsigned long long> number;
  KERAS_SPARSE_RETURN_IF_ERROR(num_missing.Read(&number));
  std::vector<MissingId> came(static_cast<size_t>(number[0]));
  if (!came.empty()) {
    KERAS_SPARSE_RETURN_IF_ERROR(device_->CopyToHost(
        on_device.data(), static_cast<int64_t>(came.size() * sizeof(MissingId)), came.data()));
  }
  // Lanes came in any order.
  std::sort(came.begin(), came.end(),
            [](const MissingId& a, const MissingId& b) { return a.place < b.place; });
  *missing = MissingIds();
  HashIndex seen(0, static_cast<int64_t>(came.size()));
  for (const MissingId& each : came) {
    const uint64_t hash = HashKey(each.id);
    uint32_t at = seen.Find(hash, each.id);
    if (at == HashIndex::kNoRow) {
      at = static_cast<uint32_t>(missing->ids.size());
      seen.Insert(hash, each.id, at);
      missing->ids.push_back(each.id);
      missing->counts.push_back(0);
    }
    ++missing->counts[at];
  }
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
