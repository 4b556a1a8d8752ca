// Whether tables take the ids of an op.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_IDS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_IDS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {

// The ids of one table in an op that has the table's lock.
struct TableIds {
  const TableState* state;
  const int64_t* ids;
  int64_t num_ids;
};

// InvalidArgument that names the first id that its table does not own, of the first list that has
// one. Ids outside a static table may read as zeros instead.
Status CheckIds(const std::vector<TableIds>& lists, Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_IDS_H_
