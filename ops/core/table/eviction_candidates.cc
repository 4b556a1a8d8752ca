#include "ops/core/table/eviction_candidates.h"

#include <algorithm>
#include <string>
#include <utility>

namespace keras_sparse {
namespace {

constexpr int64_t kChunkRows = 65536;
constexpr int64_t kNanosecondsPerRow = 50;

// Walks over the rows of a table and asks a policy for each.
class RowJudge {
 public:
  RowJudge(const TableState& state, const EvictionPolicy& policy, const std::vector<int64_t>& kept,
           Executor* executor, ExportedRows* rows)
      : state_(state),
        rule_(state.rule()),
        policy_(policy),
        kept_(kept),
        executor_(executor),
        rows_(rows) {}

  Status Run(EvictionCandidates* candidates);

 private:
  void JudgeFirstTier();
  Status JudgeLowerTier(size_t tier);
  // Takes the keys of the records that the policy lets go.
  void Judge(const std::vector<int64_t>& keys, const std::vector<const float*>& records);

  const TableState& state_;
  const UpdateRule& rule_;
  const EvictionPolicy& policy_;
  const std::vector<int64_t>& kept_;
  Executor* executor_;
  ExportedRows* rows_;
  std::vector<int64_t> keys_;  // that go
};

void RowJudge::Judge(const std::vector<int64_t>& keys, const std::vector<const float*>& records) {
  const int64_t dim = state_.options.output_dim;
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
          leaves[i] = policy_.Evicts(state_.rule_state.AgeOf(records[i]), row, dim) ? 1 : 0;
        }
      });
  for (size_t i = 0; i < keys.size(); ++i) {
    if (leaves[i] == 0 || std::binary_search(kept_.begin(), kept_.end(), keys[i])) continue;
    keys_.push_back(keys[i]);
    if (rows_ != nullptr) rows_->Append(keys[i], records[i], state_.rule_state);
  }
}

void RowJudge::JudgeFirstTier() {
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> keys;
    std::vector<const float*> records;
    cursor = state_.tiers.first_tier().Walk(cursor, kChunkRows, &keys, &records);
    Judge(keys, records);
  }
}

Status RowJudge::JudgeLowerTier(size_t tier) {
  const RowStore& store = *state_.tiers.lower_tiers()[tier];
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> walked;
    std::vector<char> bytes;
    KERAS_SPARSE_RETURN_IF_ERROR(store.Walk(cursor, kChunkRows, &walked, &bytes, &cursor));
    // What an erase that failed has left below is not the row.
    const std::vector<bool> above = state_.tiers.AreAbove(tier, walked);
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

Status RowJudge::Run(EvictionCandidates* candidates) {
  JudgeFirstTier();
  candidates->num_above = keys_.size();
  for (size_t tier = 0; tier < state_.tiers.lower_tiers().size(); ++tier) {
    KERAS_SPARSE_RETURN_IF_ERROR(JudgeLowerTier(tier));
  }
  candidates->keys = std::move(keys_);
  return Status::Ok();
}

}  // namespace

Status CheckEviction(const TableOptions& options, const EvictionPolicy& policy) {
  if (!options.is_dynamic()) {
    return Status(StatusCode::kUnimplemented,
                  "rows must be evicted from a dynamic table: all ids of a static one keep theirs. "
                  "Give table '" +
                      options.name +
                      "' input_dim=None. Received: input_dim=" + std::to_string(options.input_dim));
  }
  if (policy.needs_age() && !options.keeps_gradient_step) {
    return FailedPrecondition("table '" + options.name +
                              "' must keep the steps of gradients for rows to be evicted by their "
                              "age. Make it with this eviction policy");
  }
  return Status::Ok();
}

// The walk may be repeated, after an error of a store or for another policy, as it changes nothing:
// rows go only once all of them have been judged, for an erase would end the walk.
Status FindEvictionCandidates(const TableState& state, const EvictionPolicy& policy,
                              const std::vector<int64_t>& kept, Executor* executor,
                              EvictionCandidates* candidates, ExportedRows* rows) {
  return RowJudge(state, policy, kept, executor, rows).Run(candidates);
}

}  // namespace keras_sparse
