#include <algorithm>

#include "ops/core/device/device.h"
#include "ops/core/operations/check_room.h"
#include "ops/core/operations/device_operations.h"
#include "ops/core/operations/lookup_tables.h"
#include "ops/core/operations/row_lookup_result.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse::cuda_impl {
namespace {

Status ReadNewIds(const std::vector<StepIds>& tables, std::vector<std::vector<int64_t>>* ids) {
  ids->assign(tables.size(), {});
  Device* device = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceOf(tables, &device));
  const DeviceScope scope(*device);
  const ReadLocks locks(TablesOf(tables));
  std::vector<TableIds> lists;
  for (size_t t = 0; t < tables.size(); ++t) {
    for (const IdSpan& each : tables[t].lookups) lists.push_back({&locks[t], each.ids, each.n});
  }
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceOperations::Get().check_lookups(lists));
  RowLookupResult found;
  std::vector<IdChecks> checks;
  KERAS_SPARSE_RETURN_IF_ERROR(RowLookupResult::FindUnlessKept(lists, device, &found));
  KERAS_SPARSE_RETURN_IF_ERROR(found.Check(&checks));
  size_t list = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    const size_t end = list + tables[t].lookups.size();
    const bool has_new = std::any_of(checks.begin() + static_cast<int64_t>(list),
                                     checks.begin() + static_cast<int64_t>(end),
                                     [](const IdChecks& each) { return each.num_missing > 0; });
    for (; list < end; ++list) {
      if (has_new) KERAS_SPARSE_RETURN_IF_ERROR(AppendIds(lists[list], device, &(*ids)[t]));
    }
  }
  return Status::Ok();
}

const bool kRegistered = [] {
  DeviceOperations::Get().read_new_ids = ReadNewIds;
  return true;
}();

}  // namespace
}  // namespace keras_sparse::cuda_impl
