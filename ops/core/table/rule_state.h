// RuleState: the update rule of a table and the steps it has made.
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
#include "ops/core/record/packed_record.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/table/table_options.h"
#include "ops/core/table/tier_stack.h"
#include "ops/core/table/wall_clock.h"

namespace keras_sparse {

// A new table has UpdateRule::None until a rule is set.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the object.
class RuleState {
 public:
  explicit RuleState(const TableOptions& options)
      : rule_(UpdateRule::None(options.output_dim, options.keeps, options.types)),
        history_on_device_(std::make_unique<cuda_impl::HistoryOnDevice>()),
        ages_in_seconds_(options.ages_in_seconds),
        wall_clock_(options.clock) {}

  const UpdateRule& rule() const { return *rule_; }
  const RecordLayout& layout() const { return rule_->layout(); }
  // Returns how often Set was called: 0 if the table has no rule yet and cannot step.
  int64_t generation() const { return generation_; }
  // Returns the number of updates so far, under all rules; wraps.
  uint32_t num_steps() const { return num_steps_; }
  // Returns the time that gradients write into rows and that ages are measured against. The time is
  // the table's step, or the seconds of a clock that stands still between two calls of
  // RefreshClock.
  uint32_t clock() const { return ages_in_seconds_ ? wall_clock_.seconds() : num_steps_; }
  void RefreshClock() const {
    if (ages_in_seconds_) wall_clock_.Refresh();
  }
  // Lets a clock of seconds run backwards, to `seconds` or to the present if that is later.
  // REQUIRES: no row is marked with a later time
  void RestartClock(uint32_t seconds) { wall_clock_.Restart(seconds); }
  // Returns the steps of the table, or seconds, since the row's last gradient.
  uint32_t AgeOf(const float* record) const { return clock() - layout().GradientStep(record); }
  // Returns the mark of a row of this age. Ages above 2^31 seconds (68 years) are capped, because
  // they would soon wrap.
  uint32_t MarkOf(uint32_t age) const {
    return clock() - (ages_in_seconds_ ? std::min(age, uint32_t{1} << 31) : age);
  }
  // The copy of the rule's history on the GPU, if the table is in a GPU's memory.
  cuda_impl::HistoryOnDevice* history_on_device() const { return history_on_device_.get(); }
  // Returns the clock and the numbers of the rule in the steps that rows may have missed.
  RuleHistory history() const;

  // Reads a record as it is with all missed steps applied: numbers that a record of the table can
  // store.
  //   floats  a float record
  void ReadFloats(const float* record, float* floats) const;

  // REQUIRES: records are laid out for the rule and have no missed steps
  void Set(std::unique_ptr<UpdateRule> rule);
  // Continues after the steps of a saved table with the same rule. Records imported until the next
  // step may be as old as the saved history, which is kept until then. A clock of seconds never
  // runs backwards. Returns InvalidArgument if `history` cannot belong to the rule.
  Status Restore(const RuleHistory& history);
  void EndRestoring() { is_restoring_ = false; }

  // REQUIRES: UpdateRule::CheckNumbers returned OK
  void BeginStep(const std::vector<float>& numbers);
  void FinishStep() { rule_->FinishStep(); }

  // Applies all missed steps to the rows in these tiers.
  Status CatchUpAll(const Rounding& rounding, TierStack* tiers, Executor* executor) const;
  // Applies all missed steps once the history is large compared with the rows, then drops the
  // history.
  Status BoundHistory(const Rounding& rounding, TierStack* tiers, Executor* executor);

 private:
  // Applies the missed steps of a stored record.
  void CatchUp(const Rounding& rounding, int64_t key, float* record) const;
  Status CatchUpStore(const Rounding& rounding, RowStore* store, Executor* executor) const;

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
