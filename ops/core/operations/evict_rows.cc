#include "ops/core/operations/evict_rows.h"

#include <vector>

#include "ops/core/table/eviction_candidates.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {

Status EvictRows(EmbeddingTable* table, const EvictionPolicy& policy, Executor* executor,
                 int64_t* num_evicted, ExportedRows* rows) {
  *num_evicted = 0;
  KERAS_SPARSE_RETURN_IF_ERROR(CheckEviction(table->options(), policy));
  const WriteLocks locks({table});
  TableState& state = locks[0];
  if (rows != nullptr) {
    *rows = ExportedRows();
    rows->record_floats = state.layout().record_floats();
  }
  EvictionCandidates candidates;
  KERAS_SPARSE_RETURN_IF_ERROR(
      FindEvictionCandidates(state, policy, HashIndex(0), executor, &candidates, rows));
  KERAS_SPARSE_RETURN_IF_ERROR(EvictCandidates(candidates, &state, executor));
  *num_evicted = static_cast<int64_t>(candidates.keys.size());
  return Status::Ok();
}

// Does not call BeginChange, which fails if a lower tier is full: eviction is the remedy for that.
Status EvictCandidates(const EvictionCandidates& candidates, TableState* state,
                       Executor* executor) {
  if (candidates.keys.empty()) return Status::Ok();
  state->CountChange();
  KERAS_SPARSE_RETURN_IF_ERROR(state->tiers.EraseEverywhere(candidates.keys, candidates.num_above));
  for (const int64_t key : candidates.keys) state->gate.Forget(key);
  state->counters.evicted_rows += static_cast<int64_t>(candidates.keys.size());
  // There may be room now for work that the last change left unfinished.
  state->FinishChange(executor);
  return Status::Ok();
}

Status CompactTiers(const EmbeddingTable& table) {
  const ReadLocks locks({&table});
  Status status;
  for (const auto& store : locks[0].tiers.lower_tiers()) {
    const Status compacted = store->Compact();
    if (!status.ok() || compacted.ok()) continue;
    status = Status(compacted.code(), "table '" + table.name() + "': " + compacted.message());
  }
  return status;
}

Status CheckErasable(const TableOptions& options) {
  if (options.is_dynamic()) return Status::Ok();
  return Status(StatusCode::kUnimplemented,
                "static table '" + options.name +
                    "' keeps all its rows; only a dynamic one drops any. "
                    "Write others over them: `assign(ids, rows, slots)`");
}

Status EraseRows(EmbeddingTable* table, const int64_t* keys, int64_t n, Executor* executor) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckErasable(table->options()));
  const WriteLocks locks({table});
  return EraseFrom(std::vector<int64_t>(keys, keys + n), &locks[0], executor);
}

Status EraseFrom(const std::vector<int64_t>& keys, TableState* state, Executor* executor) {
  state->CountChange();
  KERAS_SPARSE_RETURN_IF_ERROR(state->tiers.EraseEverywhere(keys, keys.size()));
  for (const int64_t key : keys) state->gate.Forget(key);
  // There may be room now for work that the last change left unfinished.
  state->FinishChange(executor);
  return Status::Ok();
}

}  // namespace keras_sparse
