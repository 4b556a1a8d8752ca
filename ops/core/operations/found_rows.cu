#include <string>
#include <utility>

#include "ops/core/operations/found_rows.h"

namespace keras_sparse::cuda_impl {
namespace {

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

FoundIds FoundRows::ListOf(size_t list, const IdChecks& checks) const {
  const FindRequest& request = requests_[list];
  return {request.ids, request.rows, request.num_ids, static_cast<int64_t>(checks.num_missing)};
}

Status FoundRows::FindMissing(const std::vector<IdChecks>& checks,
                              std::vector<MissingKeys>* missing) const {
  std::vector<FoundIds> lists;
  for (size_t i = 0; i < requests_.size(); ++i) lists.push_back(ListOf(i, checks[i]));
  return MissingKeys::Find(lists, device_, missing);
}

Status FoundRows::ReadMissing(size_t list, MissingIds* missing) const {
  *missing = MissingIds();
  IdChecks checks;
  KERAS_SPARSE_RETURN_IF_ERROR(
      device_->CopyToHost(requests_[list].table.checks, sizeof(checks), &checks));
  std::vector<MissingKeys> found;
  KERAS_SPARSE_RETURN_IF_ERROR(MissingKeys::Find({ListOf(list, checks)}, device_, &found));
  KERAS_SPARSE_RETURN_IF_ERROR(found[0].ReadKeys(&missing->ids));
  return found[0].ReadCounts(&missing->counts);
}

}  // namespace keras_sparse::cuda_impl
