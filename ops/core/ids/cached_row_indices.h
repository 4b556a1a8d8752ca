// CachedRowIndices: rows that a lookup in a GPU's memory has found, kept for the update of the same
// ids.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_CACHED_ROW_INDICES_H_
#define KERAS_SPARSE_OPS_CORE_IDS_CACHED_ROW_INDICES_H_

#include <cstdint>
#include <memory>

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
  // Keeps the buffers of ids and row_splits valid. Null if nothing is cached.
  std::shared_ptr<const void> ids_owner;
  uint32_t* rows = nullptr;  // (num_ids) the row of each id, kNoHbmRow for none; read-only
  std::shared_ptr<const DeviceArray<uint32_t>> rows_owner;  // the rows of all lists of the lookup
  IdChecks checks;  // of ids and bags, none of them rejected

  bool AreOf(const int64_t* other, int64_t num_others) const {
    return ids_owner != nullptr && other == ids && num_others == num_ids;
  }
  // Returns whether these are the splits that were checked, for other bags of these ids.
  bool HaveChecked(const Bags& other) const {
    if (other.combiner == Combiner::kNone) return true;
    return row_splits != nullptr && other.row_splits == row_splits && other.num_bags == num_bags;
  }
  // Bytes on the GPU, beside the ids.
  int64_t bytes() const { return num_ids * static_cast<int64_t>(sizeof(uint32_t)); }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_CACHED_ROW_INDICES_H_
