// Rows that a lookup in a GPU's memory has found, kept for the update of the same ids.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_CACHED_ROW_INDICES_H_
#define KERAS_SPARSE_OPS_CORE_IDS_CACHED_ROW_INDICES_H_

#include <cstdint>
#include <memory>

#include "ops/core/device/device_array.h"
#include "ops/core/ids/bags.h"
#include "ops/core/ids/id_checks.h"

namespace keras_sparse {

// Equal ids are known by where they are: to compare what they are would take as long as to find
// their rows again. Nobody may write to them or to row_splits meanwhile.
struct CachedRowIndices {
  const int64_t* ids = nullptr;  // (num_ids)
  int64_t num_ids = 0;
  const int64_t* row_splits = nullptr;  // (num_bags + 1) null where they are in no bags
  int64_t num_bags = 0;
  // While it lives, ids and row_splits are where they were. Null where nothing is kept.
  std::shared_ptr<const void> ids_owner;
  uint32_t* rows = nullptr;  // (num_ids) of each id, kNoHbmRow where there is none; to be read
  std::shared_ptr<const DeviceArray<uint32_t>> rows_owner;  // those of all lists of the lookup
  IdChecks checks;  // of ids and bags, none of which was refused

  bool AreOf(const int64_t* other, int64_t num_others) const {
    return ids_owner != nullptr && other == ids && num_others == num_ids;
  }
  // Whether the splits of other bags of these ids are those that were checked.
  bool HaveChecked(const Bags& other) const {
    if (other.combiner == Combiner::kNone) return true;
    return row_splits != nullptr && other.row_splits == row_splits && other.num_bags == num_bags;
  }
  // On the GPU, beside the ids.
  int64_t bytes() const { return num_ids * static_cast<int64_t>(sizeof(uint32_t)); }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_CACHED_ROW_INDICES_H_
