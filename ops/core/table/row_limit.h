// RowLimit: how many rows the updates of a table may come to.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_ROW_LIMIT_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_ROW_LIMIT_H_

#include <cstdint>
#include <memory>

#include "ops/core/eviction/eviction_policy.h"
#include "ops/core/table/eviction_queue.h"

namespace keras_sparse {

struct RowLimit {
  int64_t max_rows = INT64_MAX;            // in all tiers
  std::unique_ptr<EvictionPolicy> policy;  // which rows go before; null if none do
  EvictionQueue queue = {};                // of a policy that makes room
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_ROW_LIMIT_H_
