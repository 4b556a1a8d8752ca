// A rule that gives what a dense optimizer gives, without touching every row at every step.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_RULE_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_RULE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/math/powers.h"
#include "ops/core/optimizer/missed_moves.h"
#include "ops/core/optimizer/step_sums.h"
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
class DeferredRule : public UpdateRule {
 public:
  void CatchUp(float* record) const override;
  void Read(const float* record, float* row) const override;
  bool moves_rows() const override {
    return defers_moves() && (untouched_ == Untouched::kMove || weight_decay() != 0);
  }
  int64_t history_bytes() const override;
  void ForgetSteps() override;
  void StartAt(int64_t step) override;

 protected:
  // One float an element.
  struct DecayingSlot {
    const char* name;
    double decay;  // the factor by which it shrinks in a missed step
    float initial_value = 0;
  };
  DeferredRule(const RuleOptions& options, Untouched untouched,
               const std::vector<DecayingSlot>& slots);

  // Some of the steps that a record has missed, one after the other.
  struct Missed {
    int64_t from;  // the steps after this one ...
    int64_t to;    // ... up to this one
    float decay;   // the part of the row that weight decay takes
    // How momentum moves the row, if TrackMoves was called; its length is not theirs.
    MissedMoves::Piece moves;
  };
  // What multiplying by a constant in float32 multiplies by, and what adding to x the part
  // (1 - beta) of its difference from zero does: Keras' optimizers do one or the other.
  static double Rounded(double x) { return static_cast<double>(static_cast<float>(x)); }
  static double RoundedDecay(double beta) { return 1 - Rounded(1 - beta); }

  // Writes the row as it is after missed steps. Slots stay; they are as of missed.from.
  //   record  of layout()    row  (dim), may be the record's
  virtual void MoveRow(const Missed& missed, const float* record, float* row) const;
  // MoveRow of rules whose rows move by a slot times the missed moves.
  void MoveBy(const Missed& missed, const float* record, const float* slot, float* row) const;
  // MoveRow of rules of the Adam kind, whose first slots are momentum and velocity.
  void MoveByMomentum(const Missed& missed, const float* record, float epsilon, float* row) const;

  // Of what weight decay leaves of a row over the steps after `from` up to `to`.
  double LogKeep(int64_t from, int64_t to) const {
    return weight_decay() == 0 ? 0 : log_keep_.Between(from, to);
  }

  // For rules with momentum, from their constructor: see MissedMoves.
  void TrackMoves(double mu, double nu, double epsilon) {
    moves_ = std::make_unique<MissedMoves>(mu, nu, epsilon);
  }
  // The weight and the offset of a step's move in `MissedMoves`: a row loses
  // weight * momentum / (sqrt(velocity) + offset), so both are above 0 where it goes down.
  virtual double move_weight() const { return 0; }
  virtual double move_offset() const { return 1; }

  void RememberStep() override;

 private:
  // What comes after `from` for a record whose last gradient is as old as `first`.
  Missed After(int64_t first, int64_t from) const;

  Untouched untouched_;
  std::vector<Powers> slot_decays_;
  std::unique_ptr<MissedMoves> moves_;
  StepSums log_keep_;  // of what weight decay leaves of a row in a step, if there is any
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_RULE_H_
