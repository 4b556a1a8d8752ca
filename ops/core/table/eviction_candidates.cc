#include "ops/core/table/eviction_candidates.h"

#include <string>
#include <utility>

#include "ops/core/table/records_of_keys.h"
#include "ops/core/table/scan_rows.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerCandidate = 50;

// Walks over the rows of a table and asks a policy about each row.
class RowJudge {
 public:
  RowJudge(const TableState& state, const EvictionPolicy& policy, const HashIndex& kept,
           Executor* executor, ExportedRows* rows)
      : state_(state),
        rule_(state.rule()),
        policy_(policy),
        kept_(kept),
        executor_(executor),
        rows_(rows) {}

  Status Run(EvictionCandidates* candidates);

 private:
  // Appends the keys of the records that the policy evicts.
  void Judge(const std::vector<int64_t>& keys, const std::vector<const float*>& records);

  const TableState& state_;
  const UpdateRule& rule_;
  const EvictionPolicy& policy_;
  const HashIndex& kept_;
  Executor* executor_;
  ExportedRows* rows_;
  std::vector<int64_t> keys_;  // keys to evict
};

void RowJudge::Judge(const std::vector<int64_t>& keys, const std::vector<const float*>& records) {
  const int64_t dim = state_.options.output_dim;
  const bool moves_rows = policy_.needs_row() && rule_.moves_rows();
  std::vector<char> leaves(keys.size());
  executor_->ParallelFor(
      static_cast<int64_t>(keys.size()), kNanosecondsPerCandidate, [&](int64_t begin, int64_t end) {
        const bool is_packed = state_.layout().is_packed();
        const int64_t words = rule_.float_layout().record_words();
        std::vector<float> made(
            static_cast<size_t>(policy_.needs_row() && (moves_rows || is_packed) ? words : 0));
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          const float* row = records[i];
          if (!made.empty() && (is_packed || !rule_.IsCurrent(row))) {
            state_.rule_state.ReadFloats(row, made.data());
            row = made.data();
          }
          leaves[i] = policy_.Evicts(state_.rule_state.AgeOf(records[i]), row, dim) ? 1 : 0;
        }
      });
  for (size_t i = 0; i < keys.size(); ++i) {
    if (leaves[i] == 0 || HasKey(kept_, keys[i])) continue;
    keys_.push_back(keys[i]);
    if (rows_ != nullptr) rows_->Append(keys[i], records[i], state_.rule_state);
  }
}

Status RowJudge::Run(EvictionCandidates* candidates) {
  const auto judge = [this](const auto& keys, const auto& records) { Judge(keys, records); };
  ScanFirstTier(state_.tiers, judge);
  candidates->num_above = keys_.size();
  KERAS_SPARSE_RETURN_IF_ERROR(ScanLowerTiers(state_.tiers, judge));
  candidates->keys = std::move(keys_);
  return Status::Ok();
}

// For a policy that makes room: finds the rows beyond the limit.
Status FindExcess(const TableState& state, const EvictionPolicy& policy,
                  EvictionCandidates* candidates, ExportedRows* rows) {
  const int64_t excess = state.tiers.num_rows() - state.limit.max_rows;
  KERAS_SPARSE_RETURN_IF_ERROR(
      EvictionQueue(policy.needs_frequency()).Find(state, excess, HashIndex(0), candidates));
  if (rows == nullptr) return Status::Ok();
  RecordsOfKeys records;
  KERAS_SPARSE_RETURN_IF_ERROR(RecordsOfKeys::Read(state.tiers, candidates->keys, &records));
  for (size_t i = 0; i < candidates->keys.size(); ++i) {
    rows->Append(candidates->keys[i], records[i], state.rule_state);
  }
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
  if (policy.needs_age() && !options.keeps.gradient_step) {
    return FailedPrecondition("table '" + options.name +
                              "' must keep the steps of gradients for rows to be evicted by their "
                              "age. Make it with this eviction policy");
  }
  if (policy.needs_frequency() && !options.keeps.frequency) {
    return FailedPrecondition("table '" + options.name +
                              "' must keep the frequencies of rows for the least frequent ones to "
                              "be evicted. Make it with this eviction policy");
  }
  if (policy.needs_age() && policy.takes_seconds() != options.ages_in_seconds) {
    const std::string seconds = "seconds";
    const std::string steps = "training steps";
    return FailedPrecondition(
        "table '" + options.name + "' must keep the ages of rows in " +
        (policy.takes_seconds() ? seconds : steps) +
        " for this eviction policy. Make it with this policy, or evict by its own. Received: a "
        "table with ages in " +
        (options.ages_in_seconds ? seconds : steps));
  }
  return Status::Ok();
}

// The walk changes nothing, so it can be repeated after a store's error or for another policy. Rows
// are erased after all of them have been judged, because an erase would end the walk.
Status FindEvictionCandidates(const TableState& state, const EvictionPolicy& policy,
                              const HashIndex& kept, Executor* executor,
                              EvictionCandidates* candidates, ExportedRows* rows) {
  state.rule_state.RefreshClock();
  if (policy.makes_room()) return FindExcess(state, policy, candidates, rows);
  return RowJudge(state, policy, kept, executor, rows).Run(candidates);
}

}  // namespace keras_sparse
