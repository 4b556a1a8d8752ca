// ScanRows: walks over all rows of a table, in all tiers.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_SCAN_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_SCAN_ROWS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/table/tier_stack.h"

namespace keras_sparse {

// Receives some rows of one tier. The records are valid until it returns.
using TakeRows =
    std::function<void(const std::vector<int64_t>& keys, const std::vector<const float*>& records)>;

// Both pass each row once, in chunks. Returns the error of a lower tier, which ends the walk.
void ScanFirstTier(const TierStack& tiers, const TakeRows& take);
Status ScanLowerTiers(const TierStack& tiers, const TakeRows& take);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_SCAN_ROWS_H_
