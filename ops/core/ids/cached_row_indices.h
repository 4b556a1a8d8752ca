// CachedRowIndices: rows that a lookup in a GPU's memory has found, kept for the update of the same
// ids.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_CACHED_ROW_INDICES_H_
#define KERAS_SPARSE_OPS_CORE_IDS_CACHED_ROW_INDICES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ops/core/base/status.h"
#include "ops/core/device/device_array.h"
#include "ops/core/ids/bags.h"
#include "ops/core/ids/id_checks.h"

namespace keras_sparse {

// Ids are recognized by their address: comparing their values would take as long as finding their
// rows again. Nobody may write to the ids or to row_splits meanwhile.
struct CachedRowIndices {
  const int64_t* ids = nullptr;  // (num_ids)
  int64_t num_ids = 0;
  const int64_t* row_splits = nullptr;  // (num_bags + 1) null for ids without bags
  int64_t num_bags = 0;
  // Keeps the buffers of ids and row_splits valid. Null if no rows are cached.
  std::shared_ptr<const void> ids_owner;
  uint32_t* rows = nullptr;  // (num_ids) the row of each id, kNoHbmRow for none; read-only
  std::shared_ptr<const DeviceArray<uint32_t>> rows_owner;  // the rows of all lists of the lookup
  // The checks of ids and bags, on their way to the CPU: those of list number `list`.
  std::shared_ptr<const HostCopy> checks;
  size_t list = 0;
  int64_t num_cold = 0;     // ids with a row below the GPU's memory
  bool is_checked = false;  // whether the CPU has read the checks, and counted the lookup

  bool has_rows() const { return ids_owner != nullptr; }
  void DropRows() {
    ids_owner = nullptr;
    rows_owner = nullptr;
  }
  bool AreOf(const int64_t* other, int64_t num_others) const {
    return has_rows() && other == ids && num_others == num_ids;
  }
  // Returns whether these are the splits that were checked, for other bags of these ids.
  bool HaveChecked(const Bags& other) const {
    if (other.combiner == Combiner::kNone) return true;
    return row_splits != nullptr && other.row_splits == row_splits && other.num_bags == num_bags;
  }
  // Waits for the checks.
  Status ReadChecks(Device* device, IdChecks* read) const {
    KERAS_SPARSE_RETURN_IF_ERROR(device->WaitFor(*checks));
    *read = static_cast<const IdChecks*>(checks->data)[list];
    return Status::Ok();
  }
  // Bytes on the GPU, beside the ids.
  int64_t bytes() const {
    return has_rows() ? num_ids * static_cast<int64_t>(sizeof(uint32_t)) : 0;
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_CACHED_ROW_INDICES_H_
