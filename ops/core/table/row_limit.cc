// EmbeddingTable: how many rows it may have.
#include <algorithm>
#include <utility>
#include <vector>

#include "ops/core/table/embedding_table.h"

namespace keras_sparse {
Status EmbeddingTable::SetRowLimit(int64_t max_rows, std::unique_ptr<EvictionPolicy> policy) {
  if (!is_dynamic()) {
    return Status(StatusCode::kUnimplemented,
                  "`max_rows` must be that of a dynamic table: a static one has all its rows. Give "
                  "table '" +
                      name() +
                      "' input_dim=None. Received: input_dim=" + std::to_string(input_dim()));
  }
  if (max_rows < 1) {
    return InvalidArgument("`max_rows` of table '" + name() +
                           "' must be at least 1. Received: max_rows=" + std::to_string(max_rows));
  }
  if (policy != nullptr) KERAS_SPARSE_RETURN_IF_ERROR(CheckEviction(*policy));
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  state_.max_rows = max_rows;
  state_.limit_policy = std::move(policy);
  return Status::Ok();
}

Status EmbeddingTable::RowLimitError(int64_t num_new, int64_t num_leaving) const {
  const std::string leaving =
      state_.limit_policy == nullptr
          ? ""
          : ", of which its eviction policy lets " + std::to_string(num_leaving) + " go,";
  return ResourceExhausted(
      "`max_rows` of table '" + name() +
      "' must hold the rows of all its keys; give it more (`max_vocabulary_size_per_gpu` in SOK's "
      "layers), an `eviction` policy that lets enough go, or an `admission` filter. The update "
      "made and changed no row. Received: max_rows=" +
      std::to_string(state_.max_rows) + " where the table has " +
      std::to_string(state_.tiers.num_rows()) + " rows" + leaving + " and " +
      std::to_string(num_new) + " keys are new");
}

Status EmbeddingTable::FindRoom(const int64_t* keys, int64_t n, Executor* executor,
                                EvictionCandidates* leaving) const {
  if (state_.max_rows == INT64_MAX || n <= state_.max_rows - state_.tiers.num_rows())
    return Status::Ok();
  std::vector<int64_t> without = state_.tiers.KeysWithoutRow(keys, n, executor);
  if (state_.filter != nullptr) {
    const auto waits = [this](int64_t key) { return !state_.filter->WouldAdmit(key); };
    without.erase(std::remove_if(without.begin(), without.end(), waits), without.end());
  }
  const auto num_new = static_cast<int64_t>(without.size());
  const auto has_room = [&] {
    const int64_t num_left = state_.tiers.num_rows() - static_cast<int64_t>(leaving->keys.size());
    return num_new == 0 || num_new <= state_.max_rows - num_left;
  };
  if (has_room()) return Status::Ok();
  if (state_.limit_policy != nullptr) {
    // What the step has read and is about to update stays.
    std::vector<int64_t> kept(keys, keys + n);
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    if (static_cast<int64_t>(kept.size()) <= state_.max_rows) {
      KERAS_SPARSE_RETURN_IF_ERROR(FindLeaving(*state_.limit_policy, kept, executor, leaving));
    }
  }
  if (has_room()) return Status::Ok();
  return RowLimitError(num_new, static_cast<int64_t>(leaving->keys.size()));
}

Status EmbeddingTable::CheckRoom(const int64_t* ids, int64_t n, Executor* executor) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  EvictionCandidates leaving;
  return FindRoom(ids, n, executor, &leaving);
}

}  // namespace keras_sparse
