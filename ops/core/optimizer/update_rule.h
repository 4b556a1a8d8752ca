// An optimizer's arithmetic: record + gradient -> record.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_RULE_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_RULE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/optimizer/update_history.h"
#include "ops/core/record/record_layout.h"

namespace keras_sparse {

// What a rule is made from. It stays as it is for as long as the table has the rule.
struct RuleOptions {
  std::string rule;
  int64_t dim = 1;
  std::map<std::string, double> constants;  // hyperparameters, by the names the rule asks for
  double weight_decay = 0;                  // a step takes weight_decay * learning_rate of the row
  KeptWords keeps = {};                     // in the records, for the table; see RecordLayout
};

// One object per table, since a rule that defers moves remembers the numbers of past steps.
//
// A rule *defers moves* if a record that no gradient touched for a while still has some to make
// (the momentum of dense Adam, say). Such a record is brought to the last finished step before it
// is updated, and its row reads as if it had been.
//
// A step is BeginStep, Update for each record that has a gradient, FinishStep.
//
// Thread safety: const methods may overlap; the others need the rule alone.
class UpdateRule {
 public:
  // Rules register themselves under their name, each in its own file of ops/core/optimizer/rules.
  using Factory = std::unique_ptr<UpdateRule> (*)(const RuleOptions& options);
  static bool Register(const std::string& name, std::vector<std::string> constant_names,
                       Factory factory);
  // Registers a rule that is made by its constructor from options.
  template <typename Rule>
  static bool Register(const std::string& name, std::vector<std::string> constant_names) {
    return Register(name, std::move(constant_names), [](const RuleOptions& options) {
      return std::unique_ptr<UpdateRule>(new Rule(options));
    });
  }

  // InvalidArgument if there is no such rule, or the constants are not the rule's.
  static Status Create(const RuleOptions& options, std::unique_ptr<UpdateRule>* rule);

  // The rule of a table that no optimizer has been built for: it has no slots and updates nothing.
  static std::unique_ptr<UpdateRule> None(int64_t dim, KeptWords keeps = {});

  virtual ~UpdateRule() = default;

  const RuleOptions& options() const { return options_; }
  const std::string& name() const { return options_.rule; }
  const RecordLayout& layout() const { return layout_; }
  // How many steps have been finished.
  int64_t step() const { return step_; }

  // How many numbers a step has: the learning rate, then what else the rule takes.
  virtual int num_numbers() const { return 1; }
  // InvalidArgument if there are not as many numbers, or a row would change its sign by decay.
  Status CheckNumbers(const std::vector<float>& numbers) const;

  // REQUIRES: CheckNumbers
  void BeginStep(const std::vector<float>& numbers);
  // Moves each record by its gradient.
  //   records    (n) pointers to records of layout(), all different, caught up
  //   gradients  (n) pointers to dim floats
  void Update(float* const* records, const float* const* gradients, int64_t n) const;
  void FinishStep();

  // Whether records have moves to make after steps without a gradient: CatchUp then does something.
  bool defers_moves() const { return layout_.keeps_step(); }
  // Whether rows are among what moves: if not, a row can be read as it stands.
  virtual bool moves_rows() const { return defers_moves(); }
  // Whether a record has no moves to make.
  bool IsCurrent(const float* record) const { return MissedSteps(record) == 0; }
  // Whether it remembers all steps that a record, which may come from anywhere, has missed.
  bool RemembersLastStep(const float* record) const {
    return !defers_moves() || MissedSteps(record) <= log_.num_steps();
  }
  // InvalidArgument that names record `i`, whose last step it does not.
  Status ForgottenStep(const float* record, int64_t i) const;
  // Makes the moves that a record has missed, and marks it so.
  virtual void CatchUp(float* /*record*/) const {}
  // The bytes that a rule which defers moves remembers past steps in. They grow with the steps.
  virtual int64_t history_bytes() const { return log_.bytes(); }
  // Lets the steps so far be forgotten.
  // REQUIRES: every record IsCurrent
  virtual void ForgetSteps() { log_.Forget(); }
  // Counts steps on from those of a rule before it, which it knows nothing of.
  // REQUIRES: no step was begun
  virtual void StartAt(int64_t step) { step_ = step; }
  // What it was given in the steps that it remembers. A rule that defers no moves remembers none.
  RuleHistory history() const;
  // What the row reads as; the record stays as it is.
  //   row  (dim)
  virtual void Read(const float* record, float* row) const;

 protected:
  UpdateRule(RuleOptions options, RecordLayout layout)
      : options_(std::move(options)), layout_(std::move(layout), options_.keeps) {}

  // The numbers of a step after the learning rate.
  virtual void SetNumbers(const float* /*numbers*/) {}
  virtual void UpdateRecords(float* const* records, const float* const* gradients,
                             int64_t n) const = 0;
  // What a rule remembers of the step that has ended.
  virtual void RememberStep() {}

  int64_t dim() const { return layout_.dim(); }
  double constant(const std::string& name) const { return options_.constants.at(name); }
  double weight_decay() const { return options_.weight_decay; }
  // Finished steps that a record has not seen. Steps wrap at 2^32 in a record.
  int64_t MissedSteps(const float* record) const {
    return defers_moves() ? static_cast<uint32_t>(step_ - layout_.LastStep(record)) : 0;
  }

  float learning_rate_ = 0;  // of the step
  // The part of a row that weight decay takes in the step. Not what it leaves: beside a one, a
  // float would keep two or three digits of it.
  float decay_ = 0;

 private:
  const RuleOptions options_;
  const RecordLayout layout_;
  int64_t step_ = 0;
  std::vector<float> numbers_;  // of the step, if the rule defers moves
  UpdateHistory log_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_RULE_H_
