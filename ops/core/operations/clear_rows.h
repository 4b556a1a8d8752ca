// ClearRows: resets a table to its state before training, or prepares it for a checkpoint.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_CLEAR_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_CLEAR_ROWS_H_

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/optimizer/update_history.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Resets a table to its state before training: without rows and waiting keys, or with all rows of a
// static table at their initial values.
Status ClearRows(EmbeddingTable* table, Executor* executor);

// As ClearRows; then continues after the steps of a saved table with the same rule, so that its
// records can be imported with their steps. Returns InvalidArgument if `history` cannot belong to
// the rule.
Status RestoreSteps(EmbeddingTable* table, const RuleHistory& history, Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_CLEAR_ROWS_H_
