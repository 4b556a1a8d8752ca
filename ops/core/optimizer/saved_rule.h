// The rule of a saved table, to read the records that were saved with it.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_SAVED_RULE_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_SAVED_RULE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/optimizer/update_history.h"
#include "ops/core/optimizer/update_rule.h"
#include "ops/core/record/record_layout.h"

namespace keras_sparse {

// Records may be saved as they lie in the tiers, each as of the step of its last update. This rule
// has taken the steps of the saved one again, so that it brings a record to the last of them, with
// the bits that the table would have given.
//
// Thread safety: every method may be called from any thread.
class SavedRule {
 public:
  // Takes as long as the steps themselves did without gradients: up to some microseconds a step,
  // nanoseconds where numbers stay the same.
  //   options  those that the table had its rule from, with its dim
  //   history  that of the table (HistoryOf) when the last record was saved; a saved one is checked
  // InvalidArgument unless there is such a rule and the history can be one of it.
  static Status Open(const RuleOptions& options, const RuleHistory& history,
                     std::unique_ptr<SavedRule>* rule);

  // The rule itself, after these steps.
  static Status Replay(const RuleOptions& options, const RuleHistory& history,
                       std::unique_ptr<UpdateRule>* rule);

  const RecordLayout& layout() const { return rule_->layout(); }
  int64_t record_words() const { return layout().record_words(); }

  // Gives records as they are after the last step.
  //   raw      (n, width)                    words of records as they lie in the tiers
  //   records  (n, layout().record_floats()) row and slots
  // InvalidArgument unless width is record_words(), and for a record whose last step is not one of
  // the history's; `records` then has no meaning.
  Status CatchUp(const float* raw, int64_t n, int64_t width, float* records,
                 Executor* executor) const;

 private:
  explicit SavedRule(std::unique_ptr<UpdateRule> rule) : rule_(std::move(rule)) {}

  std::unique_ptr<UpdateRule> rule_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_SAVED_RULE_H_
