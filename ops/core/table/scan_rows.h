// ScanRows: all rows of a table, in whichever tier they lie.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_SCAN_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_SCAN_ROWS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/table/tier_stack.h"

namespace keras_sparse {

// Takes some rows of one tier. Records are there until it returns.
using TakeRows =
    std::function<void(const std::vector<int64_t>& keys, const std::vector<const float*>& records)>;

// Both give each row once, in pieces. The walk over the lower tiers may end with an error of one.
void ScanFirstTier(const TierStack& tiers, const TakeRows& take);
Status ScanLowerTiers(const TierStack& tiers, const TakeRows& take);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_SCAN_ROWS_H_
