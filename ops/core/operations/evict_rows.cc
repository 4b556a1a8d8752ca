// EmbeddingTable::Evict: rows that leave all tiers.
#include <algorithm>
#include <utility>
#include <vector>

#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Has the table's lock, alone, and its friendship.
class TableEvictor {
 public:
  // `kept` are keys whose rows stay, sorted. `rows`, if not null, gets the rows that go.
  TableEvictor(const EmbeddingTable& table, const EvictionPolicy& policy,
               const std::vector<int64_t>& kept, Executor* executor, ExportedRows* rows)
      : table_(table),
        rule_(table.state_.rule()),
        policy_(policy),
        kept_(kept),
        executor_(executor),
        rows_(rows) {}

  Status Run(EvictionCandidates* leaving);

 private:
  void JudgeFirstTier();
  Status JudgeLowerTier(size_t tier);
  // Takes the keys of the records that the policy lets go.
  void Judge(const std::vector<int64_t>& keys, const std::vector<const float*>& records);

  const EmbeddingTable& table_;
  const UpdateRule& rule_;
  const EvictionPolicy& policy_;
  const std::vector<int64_t>& kept_;
  Executor* executor_;
  ExportedRows* rows_;
  std::vector<int64_t> keys_;  // that go
};

namespace {

constexpr int64_t kChunkRows = 65536;
constexpr int64_t kNanosecondsPerRow = 50;

}  // namespace

void TableEvictor::Judge(const std::vector<int64_t>& keys,
                         const std::vector<const float*>& records) {
  const int64_t dim = table_.dim();
  const bool moves_rows = policy_.needs_row() && rule_.moves_rows();
  std::vector<char> leaves(keys.size());
  executor_->ParallelFor(
      static_cast<int64_t>(keys.size()), kNanosecondsPerRow, [&](int64_t begin, int64_t end) {
        std::vector<float> made(static_cast<size_t>(moves_rows ? dim : 0));
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          const float* row = records[i];
          if (moves_rows && !rule_.IsCurrent(row)) {
            rule_.Read(row, made.data());
            row = made.data();
          }
          leaves[i] = policy_.Evicts(table_.state_.rule_state.AgeOf(records[i]), row, dim) ? 1 : 0;
        }
      });
  for (size_t i = 0; i < keys.size(); ++i) {
    if (leaves[i] == 0 || std::binary_search(kept_.begin(), kept_.end(), keys[i])) continue;
    keys_.push_back(keys[i]);
    if (rows_ != nullptr) table_.AppendExported(keys[i], records[i], rows_);
  }
}

void TableEvictor::JudgeFirstTier() {
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> keys;
    std::vector<const float*> records;
    cursor = table_.state_.tiers.first_tier().Walk(cursor, kChunkRows, &keys, &records);
    Judge(keys, records);
  }
}

Status TableEvictor::JudgeLowerTier(size_t tier) {
  const RowStore& store = *table_.state_.tiers.lower_tiers()[tier];
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> walked;
    std::vector<char> bytes;
    KERAS_SPARSE_RETURN_IF_ERROR(store.Walk(cursor, kChunkRows, &walked, &bytes, &cursor));
    // What an erase that failed has left below is not the row.
    const std::vector<bool> above = table_.state_.tiers.AreAbove(tier, walked);
    std::vector<int64_t> keys;
    std::vector<const float*> records;
    for (size_t i = 0; i < walked.size(); ++i) {
      if (above[i]) continue;
      keys.push_back(walked[i]);
      const char* record = bytes.data() + static_cast<int64_t>(i) * store.record_bytes();
      records.push_back(reinterpret_cast<const float*>(record));
    }
    Judge(keys, records);
  }
  return Status::Ok();
}

Status TableEvictor::Run(EvictionCandidates* leaving) {
  JudgeFirstTier();
  leaving->num_above = keys_.size();
  for (size_t tier = 0; tier < table_.state_.tiers.lower_tiers().size(); ++tier) {
    KERAS_SPARSE_RETURN_IF_ERROR(JudgeLowerTier(tier));
  }
  leaving->keys = std::move(keys_);
  return Status::Ok();
}

Status EmbeddingTable::FindLeaving(const EvictionPolicy& policy, const std::vector<int64_t>& kept,
                                   Executor* executor, EvictionCandidates* leaving,
                                   ExportedRows* rows) const {
  return TableEvictor(*this, policy, kept, executor, rows).Run(leaving);
}

Status EmbeddingTable::EvictRows(const EvictionCandidates& leaving, Executor* executor) {
  if (leaving.keys.empty()) return Status::Ok();
  ++state_.version;
  KERAS_SPARSE_RETURN_IF_ERROR(state_.tiers.EraseEverywhere(leaving.keys, leaving.num_above));
  for (const int64_t key : leaving.keys) state_.gate.Forget(key);
  state_.counters.evicted_rows += static_cast<int64_t>(leaving.keys.size());
  // There may be room now for what the last change left to do.
  state_.FinishChange(executor);
  return Status::Ok();
}

Status EmbeddingTable::EraseRows(const int64_t* keys, int64_t n, Executor* executor) {
  if (!is_dynamic()) {
    return Status(StatusCode::kUnimplemented,
                  "static table '" + name() + "' keeps all its rows; only a dynamic one drops any");
  }
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  ++state_.version;
  KERAS_SPARSE_RETURN_IF_ERROR(
      state_.tiers.EraseEverywhere(std::vector<int64_t>(keys, keys + n), static_cast<size_t>(n)));
  // There may be room now for what the last change left to do.
  state_.FinishChange(executor);
  return Status::Ok();
}

Status EmbeddingTable::CheckEviction(const EvictionPolicy& policy) const {
  if (!is_dynamic()) {
    return Status(StatusCode::kUnimplemented,
                  "rows must be evicted from a dynamic table: all ids of a static one keep theirs. "
                  "Give table '" +
                      name() +
                      "' input_dim=None. Received: input_dim=" + std::to_string(input_dim()));
  }
  if (policy.needs_age() && !options_.keeps_gradient_step) {
    return FailedPrecondition("table '" + name() +
                              "' must keep the steps of gradients for rows to be evicted by their "
                              "age. Make it with this eviction policy");
  }
  return Status::Ok();
}

Status EmbeddingTable::Evict(const EvictionPolicy& policy, Executor* executor, int64_t* num_evicted,
                             ExportedRows* rows) {
  *num_evicted = 0;
  KERAS_SPARSE_RETURN_IF_ERROR(CheckEviction(policy));
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (rows != nullptr) {
    *rows = ExportedRows();
    rows->record_floats = state_.layout().record_floats();
  }
  EvictionCandidates leaving;
  KERAS_SPARSE_RETURN_IF_ERROR(FindLeaving(policy, {}, executor, &leaving, rows));
  KERAS_SPARSE_RETURN_IF_ERROR(EvictRows(leaving, executor));
  *num_evicted = static_cast<int64_t>(leaving.keys.size());
  return Status::Ok();
}

}  // namespace keras_sparse
