#include <algorithm>
#include <string>
#include <utility>

#include "ops/core/base/hash.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/ids/check_bags.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/operations/row_lookup_result.h"

namespace keras_sparse::cuda_impl {
namespace {

__global__ void CollectMissingKernel(Requests<FindRequest> requests,
                                     unsigned long long* num_missing, MissingId* missing) {
  const Parts& parts = requests.parts;
  for (int64_t i = LaneOfKernel(); i < parts.size(); i += LanesOfKernel()) {
    const int r = parts.Find(i);
    const FindRequest& request = requests.requests[r];
    const int64_t place = i - parts.firsts[r];
    if (request.rows[place] != kNoHbmRow) continue;
    missing[atomicAdd(num_missing, 1ull)] = {i, request.ids[place]};
  }
}

// Kernels do not see imported rows for which the GPU had no room.
Status CheckAllAreThere(const TableState& state) {
  const int64_t num_rows = state.tiers.first_tier().num_rows();
  if (num_rows == 0) return Status::Ok();
  return ResourceExhausted("the GPU must have room for all rows of table '" + state.options.name +
                           "'; erase rows or evict some, or import again. Received: " +
                           std::to_string(num_rows) + " rows that wait for room");
}

MissingIds Counted(const std::vector<int64_t>& ids) {
  MissingIds counted;
  HashIndex seen(0, static_cast<int64_t>(ids.size()));
  for (const int64_t id : ids) {
    const uint64_t hash = HashKey(id);
    uint32_t at = seen.Find(hash, id);
    if (at == HashIndex::kNoRow) {
      at = static_cast<uint32_t>(counted.ids.size());
      seen.Insert(hash, id, at);
      counted.ids.push_back(id);
      counted.counts.push_back(0);
    }
    ++counted.counts[at];
  }
  return counted;
}

}  // namespace

Status RowLookupResult::Find(const std::vector<TableIds>& lists, Device* device,
                             RowLookupResult* found) {
  return Find(lists, std::vector<CachedRowIndices>(lists.size()), device, found);
}

Status RowLookupResult::FindUnlessKept(const std::vector<TableIds>& lists, Device* device,
                                       RowLookupResult* found) {
  std::vector<CachedRowIndices> all;
  for (const TableIds& list : lists) {
    all.push_back(list.state->tiers.hbm_store()->cached_row_indices(list.ids, list.num_ids));
  }
  return Find(lists, std::move(all), device, found);
}

Status RowLookupResult::Find(const std::vector<TableIds>& lists, std::vector<CachedRowIndices> kept,
                             Device* device, RowLookupResult* found) {
  RowLookupResult made;
  made.device_ = device;
  made.lists_ = lists;
  made.kept_ = std::move(kept);
  int64_t num_ids = 0;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (made.IsKept(i)) continue;
    num_ids += lists[i].num_ids;
    made.has_to_wait_ = true;
  }
  DeviceArray<uint32_t> found_rows;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, num_ids, &found_rows));
  made.arrays_.Add(std::vector<IdChecks>(lists.size()), &made.checks_);
  made.arrays_.Add({0}, &made.any_refused_);
  KERAS_SPARSE_RETURN_IF_ERROR(made.arrays_.Copy(device));
  uint32_t* rows = found_rows.data();
  made.rows_ = std::make_shared<DeviceArray<uint32_t>>(std::move(found_rows));
  std::vector<FindRequest> to_find;
  for (size_t i = 0; i < lists.size(); ++i) {
    const TableState& state = *lists[i].state;
    KERAS_SPARSE_RETURN_IF_ERROR(CheckAllAreThere(state));
    const HbmStore& store = *state.tiers.hbm_store();
    const HbmTable table = {
        store.records_view(), state.options.output_dim,           state.options.owned_keys(),
        store.index_view(),   state.options.out_of_range_is_zero, state.gate.default_rows().rows(),
        made.checks_ + i,     state.layout().types().row};
    if (made.IsKept(i)) {
      made.requests_.push_back({table, lists[i].ids, lists[i].num_ids, made.kept_[i].rows});
      continue;
    }
    made.requests_.push_back({table, lists[i].ids, lists[i].num_ids, rows});
    to_find.push_back(made.requests_.back());
    rows += lists[i].num_ids;
  }
  KERAS_SPARSE_RETURN_IF_ERROR(FindRows(to_find, made.any_refused_, device));
  *found = std::move(made);
  return Status::Ok();
}

Status RowLookupResult::CheckBagsUnlessKept(const std::vector<Bags>& bags) {
  std::vector<BagsToCheck> to_check;
  for (size_t i = 0; i < lists_.size(); ++i) {
    if (IsKept(i) && kept_[i].HaveChecked(bags[i])) continue;
    to_check.push_back({bags[i], requests_[i].table.checks});
    has_to_wait_ = true;
  }
  return CheckBags(to_check, device_);
}

Status RowLookupResult::CopyChecks(std::shared_ptr<const HostCopy>* checks) const {
  return device_->CopyToHostLater(checks_, checks_bytes(), checks);
}

void RowLookupResult::Keep(size_t list, const Bags& bags, CachedRowIndices kept) const {
  const TableIds& of = lists_[list];
  kept.ids = of.ids;
  kept.num_ids = of.num_ids;
  kept.row_splits = bags.combiner == Combiner::kNone ? nullptr : bags.row_splits;
  kept.num_bags = bags.num_bags;
  kept.rows = requests_[list].rows;
  kept.rows_owner = rows_;
  kept.list = list;
  of.state->tiers.hbm_store()->Keep(std::move(kept));
}

Status RowLookupResult::Check(std::vector<IdChecks>* checks) const {
  checks->assign(lists_.size(), {});
  if (has_to_wait_) {
    KERAS_SPARSE_RETURN_IF_ERROR(device_->CopyToHost(checks_, checks_bytes(), checks->data()));
  }
  for (size_t i = 0; i < lists_.size(); ++i) {
    IdChecks& seen = (*checks)[i];
    const TableOptions& options = lists_[i].state->options;
    KERAS_SPARSE_RETURN_IF_ERROR(seen.ToStatus(options.name, options.owned_keys()));
    if (!IsKept(i)) continue;
    KERAS_SPARSE_RETURN_IF_ERROR(kept_[i].ReadChecks(device_, &seen));
    KERAS_SPARSE_RETURN_IF_ERROR(seen.ToStatus(options.name, options.owned_keys()));
  }
  return Status::Ok();
}

Status RowLookupResult::FindMissing(const std::vector<IdChecks>& checks,
                                    std::vector<MissingKeys>* missing) const {
  std::vector<FoundIds> lists;
  for (size_t i = 0; i < requests_.size(); ++i) {
    const FindRequest& request = requests_[i];
    const bool same_table = i > 0 && lists_[i].state == lists_[i - 1].state;
    lists.push_back({request.ids, request.rows, request.num_ids,
                     static_cast<int64_t>(checks[i].num_missing), same_table});
  }
  return MissingKeys::Find(lists, device_, missing);
}

Status RowLookupResult::CollectMissing(const std::vector<size_t>& lists,
                                       CollectedIds* missing) const {
  CollectedIds made;
  std::vector<FindRequest> requests;
  std::vector<int64_t> num_ids;
  int64_t end = 0;
  for (const size_t list : lists) {
    requests.push_back(requests_[list]);
    num_ids.push_back(requests_[list].num_ids);
    end += requests_[list].num_ids;
    made.ends_.push_back(end);
  }
  RequestsOnDevice<FindRequest> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(
      RequestsOnDevice<FindRequest>::Copy(device_, requests, num_ids, &on_device));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<unsigned long long>::Copy(device_, {0}, &made.number_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<MissingId>::Allocate(device_, end, &made.missing_));
  Launch(CollectMissingKernel, BlocksFor(*device_, end), kBlock, device_->stream(),
         on_device.view(), made.number_.data(), made.missing_.data());
  *missing = std::move(made);
  return Status::Ok();
}

Status CollectedIds::Read(std::vector<std::vector<int64_t>>* ids) const {
  ids->assign(ends_.size(), {});
  std::vector<unsigned long long> number;
  KERAS_SPARSE_RETURN_IF_ERROR(number_.Read(&number));
  std::vector<MissingId> came;
  KERAS_SPARSE_RETURN_IF_ERROR(missing_.ReadFirst(static_cast<int64_t>(number[0]), &came));
  // Lanes append in any order.
  std::sort(came.begin(), came.end(),
            [](const MissingId& a, const MissingId& b) { return a.place < b.place; });
  size_t list = 0;
  for (const MissingId& each : came) {
    while (each.place >= ends_[list]) ++list;
    (*ids)[list].push_back(each.id);
  }
  return Status::Ok();
}

Status RowLookupResult::ReadMissing(const std::vector<size_t>& lists,
                                    std::vector<MissingIds>* missing) const {
  missing->assign(lists.size(), {});
  if (lists.empty()) return Status::Ok();
  CollectedIds collected;
  KERAS_SPARSE_RETURN_IF_ERROR(CollectMissing(lists, &collected));
  std::vector<std::vector<int64_t>> came;
  KERAS_SPARSE_RETURN_IF_ERROR(collected.Read(&came));
  for (size_t i = 0; i < lists.size(); ++i) (*missing)[i] = Counted(came[i]);
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
