#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/index/hbm_index_find.h"
#include "ops/core/operations/find_rows.h"

namespace keras_sparse::cuda_impl {
namespace {

// Returns the row of an id of a static table, and reports ids outside.
__device__ uint32_t StaticRow(const HbmTable& table, int64_t id, int64_t place) {
  if (table.owned.Hold(id)) return static_cast<uint32_t>(id);
  if (table.outside_is_zero) {
    atomicAdd(&table.checks->num_outside, 1ull);
  } else {
    atomicMin(&table.checks->refused_place, static_cast<unsigned long long>(place));
  }
  return kNoHbmRow;
}

__global__ void StaticRowsKernel(Requests<FindRequest> requests) {
  const Parts& parts = requests.parts;
  for (int64_t i = LaneOfKernel(); i < parts.size(); i += LanesOfKernel()) {
    const int r = parts.Find(i);
    const FindRequest& request = requests.requests[r];
    const int64_t place = i - parts.firsts[r];
    request.rows[place] = StaticRow(request.table, request.ids[place], place);
  }
}

__global__ void DynamicRowsKernel(Requests<FindRequest> requests) {
  using T = Tile<HbmIndexView::kLanes>;
  const Parts& parts = requests.parts;
  for (int64_t i = T::Number(); i < parts.size(); i += T::Count()) {
    const int r = parts.Find(i);
    const FindRequest& request = requests.requests[r];
    const int64_t place = i - parts.firsts[r];
    const uint32_t row = request.table.index.FindByTile(request.ids[place]);
    if (T::Lane() != 0) continue;
    if (row == kNoHbmRow) {
      IdChecks* checks = request.table.checks;
      atomicAdd(&checks->num_missing, 1ull);
      if (!request.table.owned.Hold(request.ids[place])) {
        atomicMin(&checks->refused_place, static_cast<unsigned long long>(place));
      }
    }
    request.rows[place] = row;
  }
}

// Writes the ids of the rejected positions, after all lanes have reported theirs.
__global__ void NameRefusedKernel(Requests<FindRequest> requests, uint32_t* any_refused) {
  for (int64_t r = LaneOfKernel(); r < requests.parts.num_parts; r += LanesOfKernel()) {
    const FindRequest& request = requests.requests[r];
    if (!request.table.checks->refuses()) continue;
    atomicOr(any_refused, 1u);
    request.table.checks->NameRefused(request.ids, request.num_ids, request.table.owned);
  }
}

// Finds the rows of all dynamic tables, or of all static tables.
Status FindRowsOf(const std::vector<FindRequest>& requests, bool are_dynamic, uint32_t* any_refused,
                  Device* device) {
  std::vector<FindRequest> of_kind;
  std::vector<int64_t> num_ids;
  bool may_refuse = false;
  for (const FindRequest& each : requests) {
    if (each.table.owned.is_dynamic() != are_dynamic) continue;
    of_kind.push_back(each);
    may_refuse = may_refuse || !each.table.owned.are_all();
    num_ids.push_back(each.num_ids);
  }
  if (of_kind.empty()) return Status::Ok();
  RequestsOnDevice<FindRequest> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(
      RequestsOnDevice<FindRequest>::Copy(device, of_kind, num_ids, &on_device));
  Launch(are_dynamic ? DynamicRowsKernel : StaticRowsKernel,
         BlocksFor(*device, on_device.size(), are_dynamic ? HbmIndexView::kLanes : 1), kBlock,
         device->stream(), on_device.view());
  if (may_refuse) {
    Launch(NameRefusedKernel, 1, kBlock, device->stream(), on_device.view(), any_refused);
  }
  return Status::Ok();
}

}  // namespace

Status FindRows(const std::vector<FindRequest>& requests, uint32_t* any_refused, Device* device) {
  KERAS_SPARSE_RETURN_IF_ERROR(FindRowsOf(requests, false, any_refused, device));
  return FindRowsOf(requests, true, any_refused, device);
}

}  // namespace keras_sparse::cuda_impl
