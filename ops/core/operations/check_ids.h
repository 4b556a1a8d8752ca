// CheckIds: checks the ids of an op against its tables.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_IDS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_IDS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {

// The ids of an op for one table whose lock the op holds.
struct TableIds {
  const TableState* state;
  const int64_t* ids;
  int64_t num_ids;
};

// Returns InvalidArgument for the first id that its table does not own, in the first list with such
// an id. Tables that read ids outside as zeros accept all ids.
Status CheckIds(const std::vector<TableIds>& lists, Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_CHECK_IDS_H_
