// RuleState: the update rule of a table, and how far it has come.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_RULE_STATE_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_RULE_STATE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/optimizer/history_on_device.h"
#include "ops/core/optimizer/update_rule.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/table/table_options.h"
#include "ops/core/table/tier_stack.h"
#include "ops/core/table/wall_clock.h"

namespace keras_sparse {

// A table has a rule from its beginning: UpdateRule::None until it is given one.
//
// Thread safety: const methods may overlap; any other call needs the object alone.
class RuleState {
 public:
  explicit RuleState(const TableOptions& options)
      : rule_(UpdateRule::None(options.output_dim, options.keeps)),
        history_on_device_(std::make_unique<cuda_impl::HistoryOnDevice>()),
        ages_in_seconds_(options.ages_in_seconds),
        wall_clock_(options.clock) {}

  const UpdateRule& rule() const { return *rule_; }
  const RecordLayout& layout() const { return rule_->layout(); }
  // How often Set has been called. 0 if no step can be made.
  int64_t generation() const { return generation_; }
  // Updates so far, whatever the rule; wraps.
  uint32_t num_steps() const { return num_steps_; }
  // What the table marks a row with at its gradient, and ages are counted to: its steps, or the
  // seconds of a clock that stands still between two calls of RefreshClock.
  uint32_t clock() const { return ages_in_seconds_ ? wall_clock_.seconds() : num_steps_; }
  void RefreshClock() const {
    if (ages_in_seconds_) wall_clock_.Refresh();
  }
  // Lets a clock of seconds go back, to this time or to the present if that is later.
  // REQUIRES: no row is marked with a later time
  void RestartClock(uint32_t seconds) { wall_clock_.Restart(seconds); }
  // Steps of the table, or seconds, since a row had a gradient.
  uint32_t AgeOf(const float* record) const { return clock() - layout().GradientStep(record); }
  // The mark of a row of this age. More seconds than those of 68 years are as good as these, and
  // such an age would soon begin anew.
  uint32_t MarkOf(uint32_t age) const {
    return clock() - (ages_in_seconds_ ? std::min(age, uint32_t{1} << 31) : age);
  }
  // What a GPU has of the rule's history, if the table is in its memory.
  cuda_impl::HistoryOnDevice* history_on_device() const { return history_on_device_.get(); }
  // What the rule was given in the steps that rows may have missed, and the clock.
  RuleHistory history() const;

  // REQUIRES: records are laid out for the rule, and have no moves to make
  void Set(std::unique_ptr<UpdateRule> rule);
  // Goes on after the steps of a saved table with the same rule. Records that come until the next
  // step may be as old as its history, which stays until then. A clock of seconds does not go back.
  // InvalidArgument if that cannot be its history.
  Status Restore(const RuleHistory& history);
  void EndRestoring() { is_restoring_ = false; }

  // REQUIRES: UpdateRule::CheckNumbers
  void BeginStep(const std::vector<float>& numbers);
  void FinishStep() { rule_->FinishStep(); }

  // Makes all pending moves of the rows in these tiers.
  Status CatchUpAll(TierStack* tiers, Executor* executor) const;
  // Does so once the rule remembers much beside the rows, and lets it forget.
  Status BoundHistory(TierStack* tiers, Executor* executor);

 private:
  Status CatchUpStore(RowStore* store, Executor* executor) const;

  void SetRule(std::unique_ptr<UpdateRule> rule);

  std::unique_ptr<UpdateRule> rule_;
  std::unique_ptr<cuda_impl::HistoryOnDevice> history_on_device_;
  int64_t generation_ = 0;
  uint32_t num_steps_ = 0;
  bool is_restoring_ = false;
  const bool ages_in_seconds_;
  WallClock wall_clock_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_RULE_STATE_H_
