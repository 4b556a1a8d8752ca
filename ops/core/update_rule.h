// An optimizer's arithmetic: record + gradient -> record.
#ifndef KERAS_SPARSE_OPS_CORE_UPDATE_RULE_H_
#define KERAS_SPARSE_OPS_CORE_UPDATE_RULE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/row_schema.h"
#include "ops/core/status.h"

namespace keras_sparse {

// One object per table, since a lazy rule remembers the numbers of past steps.
//
// A rule is *lazy* if a record that no gradient touched for a while still has moves to make (the
// momentum of dense Adam, say). Such a record is brought to the current step before it is updated,
// and reads as if it had been.
//
// Thread safety: const methods may overlap; BeginStep needs the rule alone.
class UpdateRule {
 public:
  // Rules register themselves under their name, each in its own file of ops/core/rules.
  using Factory = std::unique_ptr<UpdateRule> (*)(int64_t dim, const std::vector<float>& slots);
  static bool Register(const std::string& name, int num_slots, Factory factory);

  // slot_initial_values  one a slot, in the order of the record
  // InvalidArgument if there is no such rule or the number of slots is not the rule's.
  static Status Create(const std::string& name, int64_t dim,
                       const std::vector<float>& slot_initial_values,
                       std::unique_ptr<UpdateRule>* rule);

  // The rule of a table that no optimizer has been built for: it has no slots and updates nothing.
  static std::unique_ptr<UpdateRule> None(int64_t dim);

  virtual ~UpdateRule() = default;

  const std::string& name() const { return name_; }
  const RowSchema& schema() const { return schema_; }
  // The step of the last BeginStep, 0 before the first.
  int64_t step() const { return step_; }

  // How many numbers (learning rate and so on) a step has.
  virtual int num_numbers() const = 0;

  // Starts step `step` (the first is 1): Update then uses `numbers`. A step may be begun again.
  virtual void BeginStep(int64_t step, const float* numbers) = 0;

  // Moves each record by its gradient.
  //   records    (n) pointers to records of schema(), all different, already at the step before
  //   gradients  (n) pointers to dim floats
  virtual void Update(float* const* records, const float* const* gradients, int64_t n) const = 0;

  // True if CatchUp and Read do anything.
  virtual bool lazy() const { return false; }
  // Makes the moves a record has missed up to `to_step` and marks it so.
  virtual void CatchUp(float* /*record*/, int64_t /*to_step*/) const {}
  // What the row reads as at step(); the record stays as it is.
  //   row  (dim)
  virtual void Read(const float* record, float* row) const;

 protected:
  UpdateRule(std::string name, RowSchema schema)
      : name_(std::move(name)), schema_(std::move(schema)) {}

  int64_t step_ = 0;

 private:
  std::string name_;
  RowSchema schema_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_UPDATE_RULE_H_
