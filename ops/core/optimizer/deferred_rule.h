// A rule that gives what a dense optimizer gives, without touching every row at every step.
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

// What a rule makes of the records that have no gradient in a step.
enum class Untouched {
  kStay,    // nothing
  kDecay,   // weight decay takes its part of the row, if there is any
  kShrink,  // besides, slots shrink by a factor each
  kMove,    // besides, what is in the slots moves the row
};

// A record makes up for the steps it has missed when it is next read or updated. If there is
// nothing to make up for, the rule defers none.
//
// What such a record then does is said by the rule's element: see ElementRule, which CatchUp and
// Read are of.
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
  // One float an element.
  struct DecayingSlot {
    const char* name;
    double decay;  // the factor by which it shrinks in a missed step
    float initial_value = 0;
  };
  DeferredRule(const RuleOptions& options, Untouched untouched,
               const std::vector<DecayingSlot>& slots);

  // What multiplying by a constant in float32 multiplies by, and what adding to x the part
  // (1 - beta) of its difference from zero does: Keras' optimizers do one or the other.
  static double Rounded(double x) { return static_cast<double>(static_cast<float>(x)); }
  static double RoundedDecay(double beta) { return 1 - Rounded(1 - beta); }

  // For rules with momentum, from their constructor: see DeferredUpdates.
  void TrackMoves(double mu, double nu, double epsilon);
  // The weight and the offset of a step's move in `DeferredUpdates`: a row loses
  // weight * momentum / (sqrt(velocity) + offset), so both are above 0 where it goes down.
  virtual double move_weight() const { return 0; }
  virtual double move_offset() const { return 1; }
  // For rules that ask for sums of learning rates, from their constructor.
  void TrackRates();

  void RememberStep() final;

 private:
  void SetHistoryView();

  Untouched untouched_;
  std::vector<Powers> slot_decays_;
  std::unique_ptr<DeferredUpdates> moves_;
  std::unique_ptr<PrefixSums> rates_;
  PrefixSums log_keep_;       // of what weight decay leaves of a row in a step, if there is any
  HistoryView history_view_;  // of all these: a loop over records makes none
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_RULE_H_
