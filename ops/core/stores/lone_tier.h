// Errors of a table whose first tier has no room.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_LONE_TIER_H_
#define KERAS_SPARSE_OPS_CORE_STORES_LONE_TIER_H_

#include <cstdint>
#include <string>

#include "ops/core/base/status.h"

namespace keras_sparse {

// Of memory and of a GPU's memory, where rows are used and no tier follows.
//   size      that it may take
//   num_rows  that would be there, and take so many bytes
inline Status LoneTierIsFull(const std::string& table, int64_t size, int64_t num_rows,
                             int64_t bytes) {
  return ResourceExhausted("`storage_size` must hold all rows of table '" + table +
                           "', which has no lower tier; give it more, or a lower tier by "
                           "`storage_type`, or evict rows. Received: " +
                           std::to_string(size) + " bytes where " + std::to_string(num_rows) +
                           " rows take " + std::to_string(bytes));
}

// An error of memory with the table that it is of.
inline Status WithTable(const std::string& table, const Status& status) {
  if (status.code() != StatusCode::kResourceExhausted) return status;
  return ResourceExhausted("table '" + table + "': " + status.message());
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_LONE_TIER_H_
