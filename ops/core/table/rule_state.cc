#include "ops/core/table/rule_state.h"

#include <algorithm>
#include <utility>

#include "ops/core/optimizer/saved_rule.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerCaughtUpRow = 200;
constexpr int64_t kRelayoutChunkRows = 65536;
// A walk over all rows pays off once the history is a hundredth of their size, and at least this
// large.
constexpr int64_t kLeastHistoryBytes = 1 << 20;
constexpr int64_t kHistoryShare = 100;

}  // namespace

RuleHistory RuleState::history() const {
  RefreshClock();
  RuleHistory history = rule_->history();
  history.table_step = clock();
  return history;
}

void RuleState::Set(std::unique_ptr<UpdateRule> rule) {
  SetRule(std::move(rule));
  ++generation_;
}

void RuleState::SetRule(std::unique_ptr<UpdateRule> rule) {
  rule_ = std::move(rule);
  history_on_device_ = std::make_unique<cuda_impl::HistoryOnDevice>();
}

Status RuleState::Restore(const RuleHistory& history) {
  if (generation_ > 0) {
    std::unique_ptr<UpdateRule> replayed;
    KERAS_SPARSE_RETURN_IF_ERROR(SavedRule::Replay(rule_->options(), history, &replayed));
    SetRule(std::move(replayed));
  }
  if (ages_in_seconds_) {
    wall_clock_.GoOn(history.table_step);
    RefreshClock();
  } else {
    num_steps_ = history.table_step;
  }
  is_restoring_ = true;
  return Status::Ok();
}

void RuleState::BeginStep(const std::vector<float>& numbers) {
  rule_->BeginStep(numbers);
  ++num_steps_;
  RefreshClock();
}

void RuleState::ReadFloats(const float* record, float* floats) const {
  UnpackRecord(layout(), record, floats);
  if (!rule_->defers_moves()) return;
  rule_->CatchUp(floats);
  RoundRecord(layout(), floats);
}

void RuleState::CatchUp(const Rounding& rounding, int64_t key, float* record) const {
  if (!layout().is_packed()) return rule_->CatchUp(record);
  if (rule_->IsCurrent(record)) return;
  static thread_local std::vector<float> floats;
  floats.resize(static_cast<size_t>(rule_->float_layout().record_words()));
  UnpackRecord(layout(), record, floats.data());
  rule_->CatchUp(floats.data());
  PackRecord(layout(), floats.data(), rounding, key, record);
}

Status RuleState::CatchUpAll(const Rounding& rounding, TierStack* tiers, Executor* executor) const {
  if (!rule_->defers_moves()) return Status::Ok();
  tiers->staged().Clear();
  for (int64_t cursor = 0; cursor >= 0;) {
    std::vector<int64_t> keys;
    std::vector<const float*> records;
    cursor = tiers->first_tier().Walk(cursor, kRelayoutChunkRows, &keys, &records);
    executor->ParallelFor(static_cast<int64_t>(records.size()), kNanosecondsPerCaughtUpRow,
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i) {
                              const auto row = static_cast<size_t>(i);
                              CatchUp(rounding, keys[row], const_cast<float*>(records[row]));
                            }
                          });
  }
  if (HbmStore* gpu = tiers->hbm_store(); gpu != nullptr) {
    KERAS_SPARSE_RETURN_IF_ERROR(gpu->CatchUp(*rule_, rounding, history_on_device_.get()));
  }
  for (const auto& store : tiers->cold_stores()) {
    KERAS_SPARSE_RETURN_IF_ERROR(CatchUpStore(rounding, store.get(), executor));
  }
  return Status::Ok();
}

// May be repeated after an error: records that are already caught up have no missed steps.
Status RuleState::CatchUpStore(const Rounding& rounding, RowStore* store,
                               Executor* executor) const {
  // A change ends the walk, so all keys are collected first.
  std::vector<int64_t> keys;
  std::vector<char> records;
  for (int64_t cursor = 0; cursor >= 0;) {
    records.clear();
    KERAS_SPARSE_RETURN_IF_ERROR(store->Walk(cursor, kRelayoutChunkRows, &keys, &records, &cursor));
  }
  const auto found = std::make_unique<bool[]>(kRelayoutChunkRows);
  const auto num_keys = static_cast<int64_t>(keys.size());
  const int64_t record_bytes = store->record_bytes();
  for (int64_t begin = 0; begin < num_keys; begin += kRelayoutChunkRows) {
    const int64_t n = std::min(kRelayoutChunkRows, num_keys - begin);
    records.resize(static_cast<size_t>(n * record_bytes));
    KERAS_SPARSE_RETURN_IF_ERROR(store->Get(&keys[begin], n, records.data(), found.get()));
    executor->ParallelFor(n, kNanosecondsPerCaughtUpRow, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        CatchUp(rounding, keys[static_cast<size_t>(begin + i)],
                reinterpret_cast<float*>(records.data() + i * record_bytes));
      }
    });
    KERAS_SPARSE_RETURN_IF_ERROR(store->Put(&keys[begin], n, records.data()));
  }
  return Status::Ok();
}

Status RuleState::BoundHistory(const Rounding& rounding, TierStack* tiers, Executor* executor) {
  if (is_restoring_) return Status::Ok();
  const int64_t history_bytes = rule_->history_bytes();
  if (history_bytes <= kLeastHistoryBytes) return Status::Ok();
  // Compares with the size of the rows, not of the tiers, so that all tiers give the same result.
  const int64_t row_bytes = tiers->num_rows() * layout().record_bytes();
  if (history_bytes <= row_bytes / kHistoryShare) return Status::Ok();
  KERAS_SPARSE_RETURN_IF_ERROR(CatchUpAll(rounding, tiers, executor));
  // Records of a checkpoint may be older than the history that the rule keeps now.
  tiers->SetEverythingChanged();
  rule_->ForgetSteps();
  return Status::Ok();
}

}  // namespace keras_sparse
