// RowLimit: how many rows the updates of a table may come to.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_ROW_LIMIT_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_ROW_LIMIT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/eviction/eviction_policy.h"
#include "ops/core/table/eviction_queue.h"

namespace keras_sparse {

// What was found for an update before it is made, where ranks first agree on it: the update asks
// for the same keys again.
struct FoundRoom {
  int64_t version = -1;  // of the table
  std::vector<int64_t> keys = {};
  EvictionCandidates leaving = {};
};

struct RowLimit {
  int64_t max_rows = INT64_MAX;            // in all tiers
  std::unique_ptr<EvictionPolicy> policy;  // which rows go before; null if none do
  EvictionQueue queue = EvictionQueue();   // of a policy that makes room
  FoundRoom found = {};
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_ROW_LIMIT_H_
