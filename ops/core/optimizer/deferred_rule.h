// DeferredRule: a rule with the results of a dense optimizer that does not touch every row at every
// step.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_RULE_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_RULE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/math/powers.h"
#include "ops/core/optimizer/deferred_updates.h"
#include "ops/core/optimizer/history_view.h"
#include "ops/core/optimizer/prefix_sums.h"
#include "ops/core/optimizer/update_rule.h"

namespace keras_sparse {

// How a rule changes a record in a step without a gradient for the record.
enum class Untouched {
  kStay,    // nothing
  kDecay,   // weight decay, if there is any, shrinks the row
  kShrink,  // in addition, each slot shrinks by a factor
  kMove,    // in addition, the slots move the row
};

// A record catches up on missed steps when it is next read or updated. A rule for which missed
// steps change nothing defers none.
//
// The rule's element defines what missed steps do: see ElementRule, which implements CatchUp and
// Read.
class DeferredRule : public UpdateRule {
 public:
  bool moves_rows() const override {
    return defers_moves() && (untouched_ == Untouched::kMove || weight_decay() != 0);
  }
  int64_t history_bytes() const override;
  void ForgetSteps() override;
  void StartAt(int64_t step) override;

  // Valid until the rule changes.
  const HistoryView& history_view() const { return history_view_; }

 protected:
  // One float per element.
  struct DecayingSlot {
    const char* name;
    double decay;  // the factor by which it shrinks in a missed step
    float initial_value = 0;
  };
  DeferredRule(const RuleOptions& options, Untouched untouched,
               const std::vector<DecayingSlot>& slots);

  // Rounded returns the factor of a multiplication by x in float32. RoundedDecay returns the factor
  // of adding (1 - beta) times the difference from zero. Each of Keras' optimizers does one or the
  // other.
  static double Rounded(double x) { return static_cast<double>(static_cast<float>(x)); }
  static double RoundedDecay(double beta) { return 1 - Rounded(1 - beta); }

  // Called by the constructor of rules with momentum: see DeferredUpdates.
  void TrackMoves(double mu, double nu, double epsilon);
  // The weight and the offset of a step's move in `DeferredUpdates`: a row loses weight * momentum
  // / (sqrt(velocity) + offset), so both are positive for a descent.
  virtual double move_weight() const { return 0; }
  virtual double move_offset() const { return 1; }
  // Called by the constructor of rules that need sums of learning rates.
  void TrackRates();

  void RememberStep() final;

 private:
  void SetHistoryView();

  Untouched untouched_;
  std::vector<Powers> slot_decays_;
  std::unique_ptr<DeferredUpdates> moves_;
  std::unique_ptr<PrefixSums> rates_;
  PrefixSums log_keep_;       // logs of the part that weight decay leaves, if any
  HistoryView history_view_;  // of all these, built once so that loops over records need not
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_RULE_H_
