// ClearRows: a table back to the state before training, or before that of a saved one.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_CLEAR_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_CLEAR_ROWS_H_

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/optimizer/update_history.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Back to the state before training: no rows and no waiting keys, or every row its initial one.
Status ClearRows(EmbeddingTable* table, Executor* executor);

// The same, and then goes on after the steps of a saved table with the same rule, so that its
// records can be imported with their steps. InvalidArgument if that cannot be its history.
Status RestoreSteps(EmbeddingTable* table, const RuleHistory& history, Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_CLEAR_ROWS_H_
