// Rows that a lookup in a GPU's memory has found, kept for the update of the same ids.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_KEPT_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_KEPT_ROWS_H_

#include <cstdint>
#include <memory>

#include "ops/core/device/device_array.h"
#include "ops/core/ids/bags.h"
#include "ops/core/ids/id_checks.h"

namespace keras_sparse {

// Equal ids are known by where they are: to compare what they are would take as long as to find
// their rows again.
struct KeptRows {
  const int64_t* ids = nullptr;  // (bags.num_ids)
  Bags bags;
  // While it lives, ids and row_splits are where they were, and what they were. Null where nothing
  // is kept.
  std::shared_ptr<const void> ids_owner;
  uint32_t* rows = nullptr;  // (bags.num_ids) of each id, kNoHbmRow where there is none
  std::shared_ptr<const DeviceArray<uint32_t>> rows_owner;
  IdChecks checks;  // of ids and bags, none of which was refused

  bool AreOf(const int64_t* other, int64_t num_ids) const {
    return ids_owner != nullptr && other == ids && num_ids == bags.num_ids;
  }
  // Whether the splits of other bags of these ids are those that were checked.
  bool HaveChecked(const Bags& other) const {
    if (other.combiner == Combiner::kNone) return true;
    return bags.combiner != Combiner::kNone && other.row_splits == bags.row_splits &&
           other.num_bags == bags.num_bags;
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_KEPT_ROWS_H_
