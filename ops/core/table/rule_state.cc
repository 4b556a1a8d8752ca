// EmbeddingTable: the pending moves of all rows, made at once.
#include <algorithm>

#include "ops/core/table/embedding_table.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerCatchUp = 200;
constexpr int64_t kChunkRows = 65536;
// A history is worth a walk over all rows when it takes as much as a hundredth of them, but not
// for less than this.
constexpr int64_t kLeastHistoryBytes = 1 << 20;
constexpr int64_t kHistoryShare = 100;

}  // namespace

Status EmbeddingTable::CatchUpAll(Executor* executor) {
  if (!state_.rule->defers_moves()) return Status::Ok();
  state_.tiers.staged().Clear();
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> keys;
    std::vector<const float*> records;
    cursor = state_.tiers.first_tier().Walk(cursor, kChunkRows, &keys, &records);
    executor->ParallelFor(
        static_cast<int64_t>(records.size()), kNanosecondsPerCatchUp,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            state_.rule->CatchUp(const_cast<float*>(records[static_cast<size_t>(i)]));
          }
        });
  }
  for (const auto& store : state_.tiers.lower_tiers()) {
    KERAS_SPARSE_RETURN_IF_ERROR(CatchUpStore(store.get(), executor));
  }
  return Status::Ok();
}

Status EmbeddingTable::CatchUpStore(RowStore* store, Executor* executor) const {
  // A walk ends with the first change, so that all keys are collected before it.
  std::vector<int64_t> keys;
  std::vector<char> records;
  for (int64_t cursor = 0; cursor >= 0;) {
    records.clear();
    KERAS_SPARSE_RETURN_IF_ERROR(store->Walk(cursor, kChunkRows, &keys, &records, &cursor));
  }
  const auto found = std::make_unique<bool[]>(kChunkRows);
  const auto num_keys = static_cast<int64_t>(keys.size());
  const int64_t record_bytes = store->record_bytes();
  for (int64_t begin = 0; begin < num_keys; begin += kChunkRows) {
    const int64_t n = std::min(kChunkRows, num_keys - begin);
    records.resize(static_cast<size_t>(n * record_bytes));
    KERAS_SPARSE_RETURN_IF_ERROR(store->Get(&keys[begin], n, records.data(), found.get()));
    executor->ParallelFor(n, kNanosecondsPerCatchUp, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        state_.rule->CatchUp(reinterpret_cast<float*>(records.data() + i * record_bytes));
      }
    });
    KERAS_SPARSE_RETURN_IF_ERROR(store->Put(&keys[begin], n, records.data()));
  }
  return Status::Ok();
}

Status EmbeddingTable::BoundHistory(Executor* executor) {
  if (state_.is_restoring) return Status::Ok();
  const int64_t history_bytes = state_.rule->history_bytes();
  if (history_bytes <= kLeastHistoryBytes) return Status::Ok();
  // By rows, not by what the tiers take: a table does the same over any tiers.
  const int64_t row_bytes = state_.tiers.num_rows() * state_.rule->layout().record_bytes();
  if (history_bytes <= row_bytes / kHistoryShare) return Status::Ok();
  KERAS_SPARSE_RETURN_IF_ERROR(CatchUpAll(executor));
  // Records of a checkpoint lie further back than what the rule knows now.
  state_.tiers.SetEverythingChanged();
  state_.rule->ForgetSteps();
  return Status::Ok();
}

}  // namespace keras_sparse
