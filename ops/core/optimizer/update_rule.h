// UpdateRule: an optimizer's arithmetic, record + gradient -> record.
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
#include "ops/core/record/packed_record.h"
#include "ops/core/record/record_layout.h"

namespace keras_sparse {

// Options of a rule. Constant for as long as the table has the rule.
struct RuleOptions {
  std::string rule;
  int64_t dim = 1;
  std::map<std::string, double> constants;  // hyperparameters, by the rule's names for them
  double weight_decay = 0;                  // a step removes weight_decay * learning_rate * row
  KeptWords keeps = {};                     // words in the records for the table; see RecordLayout
  RecordTypes types = {};                   // of the table's records
};

// Each table has its own object, because a rule that defers moves remembers the numbers of past
// steps.
//
// A rule *defers moves* if records still change in steps without a gradient (by the momentum of
// dense Adam, for example). Such a record catches up to the last finished step before it is
// updated, and its row reads as if it had.
//
// A step is BeginStep, Update for each record that has a gradient, FinishStep.
//
// Thread safety: const methods may overlap; other calls need exclusive access to the rule.
class UpdateRule {
 public:
  // Rules register under their name, each in its own file of ops/core/optimizer/rules.
  using Factory = std::unique_ptr<UpdateRule> (*)(const RuleOptions& options);
  static bool Register(const std::string& name, std::vector<std::string> constant_names,
                       Factory factory);
  // Registers a rule whose constructor takes options.
  template <typename Rule>
  static bool Register(const std::string& name, std::vector<std::string> constant_names) {
    return Register(name, std::move(constant_names), [](const RuleOptions& options) {
      return std::unique_ptr<UpdateRule>(new Rule(options));
    });
  }

  // Returns InvalidArgument if there is no such rule, or if the constants do not fit the rule.
  static Status Create(const RuleOptions& options, std::unique_ptr<UpdateRule>* rule);

  // Returns the rule of a table without an optimizer: it has no slots and updates nothing.
  static std::unique_ptr<UpdateRule> None(int64_t dim, KeptWords keeps = {},
                                          RecordTypes types = {});

  virtual ~UpdateRule() = default;

  const RuleOptions& options() const { return options_; }
  const std::string& name() const { return options_.rule; }
  // The layout of the table's records, which may be packed, and of float records. The methods below
  // take float records.
  const RecordLayout& layout() const { return layout_; }
  const RecordLayout& float_layout() const { return float_layout_; }
  // Number of finished steps.
  int64_t step() const { return step_; }

  // Number of numbers per step: the learning rate, then the rule's others.
  virtual int num_numbers() const { return 1; }
  // Returns InvalidArgument if the count of numbers is wrong, or if decay would change the sign of
  // a row.
  Status CheckNumbers(const std::vector<float>& numbers) const;

  // REQUIRES: CheckNumbers returned OK
  void BeginStep(const std::vector<float>& numbers);
  // Updates each record with its gradient.
  //   records    (n) pointers to records of float_layout(), distinct, caught up
  //   gradients  (n) pointers to dim floats
  void Update(float* const* records, const float* const* gradients, int64_t n) const;
  // Updates packed records of layout(): applies missed steps, then the gradient, and rounds once.
  //   keys       (n) of the records, for `rounding`
  //   gradients  (n) pointers to dim floats
  void UpdatePacked(const Rounding& rounding, const int64_t* keys, float* const* records,
                    const float* const* gradients, int64_t n) const;
  void FinishStep();

  // Whether records change in steps without a gradient: CatchUp then applies these steps.
  bool defers_moves() const { return layout_.keeps_step(); }
  // Whether missed steps change rows: if not, a row can be read in place.
  virtual bool moves_rows() const { return defers_moves(); }
  // Whether a record of layout() has no missed steps.
  bool IsCurrent(const float* record) const { return MissedSteps(layout_, record) == 0; }
  // Whether the rule remembers all steps that a record, perhaps an imported one, has missed.
  //   layout  layout() or float_layout()
  bool RemembersLastStep(const RecordLayout& layout, const float* record) const {
    return !defers_moves() || MissedSteps(layout, record) <= log_.num_steps();
  }
  // Returns the InvalidArgument error of record `i`, whose last step the rule does not remember.
  Status ForgottenStep(const RecordLayout& layout, const float* record, int64_t i) const;
  // Applies the steps that a record has missed, and marks it as current.
  virtual void CatchUp(float* /*record*/) const {}
  // Bytes of past steps that a rule which defers moves remembers. They grow with the steps.
  virtual int64_t history_bytes() const { return log_.bytes(); }
  // Forgets the steps so far.
  // REQUIRES: every record IsCurrent
  virtual void ForgetSteps() { log_.Forget(); }
  // Continues counting after the steps of an earlier rule, of which this rule knows nothing.
  // REQUIRES: no step was begun
  virtual void StartAt(int64_t step) { step_ = step; }
  // Returns the numbers of the steps that the rule remembers. A rule that defers no moves remembers
  // none.
  RuleHistory history() const;
  // Computes the current row of a record; the record is unchanged.
  //   row  (dim)
  virtual void Read(const float* record, float* row) const;

 protected:
  UpdateRule(RuleOptions options, RecordLayout layout)
      : options_(std::move(options)),
        layout_(std::move(layout), options_.keeps, options_.types),
        float_layout_(layout_.Unpacked()) {}

  // Sets the numbers of a step after the learning rate.
  virtual void SetNumbers(const float* /*numbers*/) {}
  virtual void UpdateRecords(float* const* records, const float* const* gradients,
                             int64_t n) const = 0;
  // Remembers the finished step.
  virtual void RememberStep() {}

  int64_t dim() const { return layout_.dim(); }
  double constant(const std::string& name) const { return options_.constants.at(name); }
  double weight_decay() const { return options_.weight_decay; }
  // Returns how many finished steps a record has missed. Steps wrap at 2^32 in a record.
  int64_t MissedSteps(const RecordLayout& layout, const float* record) const {
    return defers_moves() ? static_cast<uint32_t>(step_ - layout.LastStep(record)) : 0;
  }

  float learning_rate_ = 0;  // of the step
  // The part of a row that weight decay removes in the step. The part that it leaves is close to
  // one, so that a float would keep only two or three digits of the decay.
  float decay_ = 0;

 private:
  const RuleOptions options_;
  const RecordLayout layout_;
  const RecordLayout float_layout_;
  int64_t step_ = 0;
  std::vector<float> numbers_;  // of the step, if the rule defers moves
  UpdateHistory log_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_UPDATE_RULE_H_
