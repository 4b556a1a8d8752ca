#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/index/hbm_index_find.h"
#include "ops/core/operations/find_rows.h"

namespace keras_sparse::cuda_impl {
namespace {

// The row of an id of a static table. What is outside is reported.
__device__ uint32_t StaticRow(const HbmTable& table, int64_t id, int64_t place) {
  if (id >= 0 && id < table.records.num_rows) return static_cast<uint32_t>(id);
  if (table.outside_is_zero) {
    atomicAdd(&table.checks->num_outside, 1ull);
  } else {
    atomicMin(&table.checks->refused_place, static_cast<unsigned long long>(place));
  }
  return kNoHbmRow;
}

__global__ void FindRowsKernel(Requests<FindRequest> requests) {
  using T = Tile<HbmIndexView::kLanes>;
  const Parts& parts = requests.parts;
  for (int64_t i = T::Number(); i < parts.size(); i += T::Count()) {
    const int r = parts.Find(i);
    const FindRequest& request = requests.requests[r];
    const int64_t place = i - parts.firsts[r];
    const int64_t id = request.ids[place];
    if (request.table.is_dynamic) {
      const uint32_t row = request.table.index.FindByTile(id);
      if (T::Lane() != 0) continue;
      if (row == kNoHbmRow) atomicAdd(&request.table.checks->num_missing, 1ull);
      request.rows[place] = row;
    } else if (T::Lane() == 0) {
      request.rows[place] = StaticRow(request.table, id, place);
    }
  }
}

// The id of a refused place, once all lanes have seen theirs. By one lane: a table may be asked
// twice, and of both the first counts.
__global__ void NameRefusedKernel(Requests<FindRequest> requests, uint32_t* any_refused) {
  for (int r = requests.parts.num_parts - 1; r >= 0; --r) {
    const FindRequest& request = requests.requests[r];
    if (request.table.checks->refuses()) *any_refused = 1;
    request.table.checks->NameRefused(request.ids, request.num_ids, request.table.records.num_rows);
  }
}

}  // namespace

Status FindRows(const std::vector<FindRequest>& requests, uint32_t* any_refused, Device* device) {
  std::vector<int64_t> num_ids;
  for (const FindRequest& each : requests) num_ids.push_back(each.num_ids);
  RequestsOnDevice<FindRequest> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(
      RequestsOnDevice<FindRequest>::Copy(device, requests, num_ids, &on_device));
  Launch(FindRowsKernel, BlocksFor(*device, on_device.size(), HbmIndexView::kLanes), kBlock,
         device->stream(), on_device.view());
  Launch(NameRefusedKernel, 1, 1, device->stream(), on_device.view(), any_refused);
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
