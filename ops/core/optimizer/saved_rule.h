// SavedRule: the rule of a saved table, to read the records that were saved with it.
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

// Records may be saved as the tiers store them, each as of the step of its last update. This rule
// replays the steps of the saved rule. It can then catch a record up to the last step, with the
// table's own bits.
//
// Thread safety: every method may be called from any thread.
class SavedRule {
 public:
  // Takes as long as the steps themselves without gradients: up to some microseconds per step,
  // nanoseconds while numbers are constant.
  //   options  from which the table's rule was created, with its dim
  //   history  of the table (HistoryOf) when the last record was saved; a saved one is checked
  // Returns InvalidArgument if there is no such rule, or if the history cannot belong to it.
  static Status Open(const RuleOptions& options, const RuleHistory& history,
                     std::unique_ptr<SavedRule>* rule);

  // Creates the rule itself, after these steps.
  static Status Replay(const RuleOptions& options, const RuleHistory& history,
                       std::unique_ptr<UpdateRule>* rule);

  const RecordLayout& layout() const { return rule_->layout(); }
  int64_t record_words() const { return layout().record_words(); }

  // Returns records as they are after the last step.
  //   raw      (n, width)                    words of records as the tiers store them
  //   records  (n, layout().record_floats()) row and slots
  // Returns InvalidArgument unless width is record_words(), and for a record whose last step is not
  // in the history; `records` is undefined then.
  Status CatchUp(const float* raw, int64_t n, int64_t width, float* records,
                 Executor* executor) const;

 private:
  explicit SavedRule(std::unique_ptr<UpdateRule> rule) : rule_(std::move(rule)) {}

  std::unique_ptr<UpdateRule> rule_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_SAVED_RULE_H_
