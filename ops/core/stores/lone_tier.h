// Errors of a table whose first tier is full and has no tier below.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_LONE_TIER_H_
#define KERAS_SPARSE_OPS_CORE_STORES_LONE_TIER_H_

#include <cstdint>
#include <string>

#include "ops/core/base/status.h"

namespace keras_sparse {

// For host memory and a GPU's memory.
//   size      maximum bytes of the tier
//   num_rows  rows that would be there, taking `bytes`
inline Status LoneTierIsFull(const std::string& table, int64_t size, int64_t num_rows,
                             int64_t bytes) {
  return ResourceExhausted("`storage_size` must hold all rows of table '" + table +
                           "', which has no lower tier; give it more, or a lower tier by "
                           "`storage_type`, or evict rows. Received: " +
                           std::to_string(size) + " bytes where " + std::to_string(num_rows) +
                           " rows take " + std::to_string(bytes));
}

// Adds the table's name to an error for lack of memory.
inline Status WithTable(const std::string& table, const Status& status) {
  if (status.code() != StatusCode::kResourceExhausted) return status;
  return ResourceExhausted("table '" + table + "': " + status.message());
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_LONE_TIER_H_
