#include "ops/core/operations/clear_rows.h"

#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

Status Clear(TableState* state, Executor* executor) {
  ++state->version;
  state->gate.Clear();
  return state->tiers.Clear(state->layout(), state->gate.initializer(), state->rule().step(),
                            executor);
}

}  // namespace

Status ClearRows(EmbeddingTable* table, Executor* executor) {
  const WriteLocks locks({table});
  return Clear(&locks[0], executor);
}

Status RestoreSteps(EmbeddingTable* table, const RuleHistory& history, Executor* executor) {
  const WriteLocks locks({table});
  KERAS_SPARSE_RETURN_IF_ERROR(locks[0].rule_state.Restore(history));
  KERAS_SPARSE_RETURN_IF_ERROR(Clear(&locks[0], executor));
  // All rows that the clock was held for are gone.
  locks[0].rule_state.RestartClock(history.table_step);
  return Status::Ok();
}

}  // namespace keras_sparse
