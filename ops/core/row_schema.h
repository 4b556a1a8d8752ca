// The bytes of one record: everything a table keeps for a key.
#ifndef KERAS_SPARSE_OPS_CORE_ROW_SCHEMA_H_
#define KERAS_SPARSE_OPS_CORE_ROW_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace keras_sparse {

// Far above any use, and low enough that the bytes of some records fit 64 bits.
constexpr int64_t kMaxOutputDim = int64_t{1} << 24;

// An optimizer value kept beside a row.
struct Slot {
  std::string name;
  bool per_row;         // one float a row instead of one an element
  float initial_value;  // of every float of the slot
};

//   row (dim floats) | slot 0 | slot 1 | ... | last step (uint32, only if the rule keeps one)
//
// Embedding and slots stand side by side so that an update costs one trip to memory, and so that
// they can only move and be saved together.
class RowSchema {
 public:
  RowSchema(int64_t dim, std::vector<Slot> slots, bool keeps_step)
      : dim_(dim), slots_(std::move(slots)), keeps_step_(keeps_step) {
    record_floats_ = dim_;
    for (const Slot& slot : slots_) record_floats_ += slot.per_row ? 1 : dim_;
  }

  int64_t dim() const { return dim_; }
  const std::vector<Slot>& slots() const { return slots_; }
  bool keeps_step() const { return keeps_step_; }
  // Row and slots.
  int64_t record_floats() const { return record_floats_; }
  int64_t record_bytes() const { return 4 * (record_floats_ + (keeps_step_ ? 1 : 0)); }

  // Fills the slots of a record and marks it as last updated at `step`.
  void InitializeSlots(float* record, int64_t step) const {
    float* value = record + dim_;
    for (const Slot& slot : slots_) {
      const int64_t width = slot.per_row ? 1 : dim_;
      for (int64_t i = 0; i < width; ++i) *value++ = slot.initial_value;
    }
    SetLastStep(record, step);
  }

  // Steps wrap at 2^32, which a rule that keeps them must allow for: it uses differences only.
  int64_t LastStep(const float* record) const {
    if (!keeps_step_) return 0;
    uint32_t step;
    std::memcpy(&step, record + record_floats_, sizeof(step));
    return step;
  }

  void SetLastStep(float* record, int64_t step) const {
    if (!keeps_step_) return;
    const auto word = static_cast<uint32_t>(step);
    std::memcpy(record + record_floats_, &word, sizeof(word));
  }

 private:
  int64_t dim_;
  std::vector<Slot> slots_;
  bool keeps_step_;
  int64_t record_floats_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_ROW_SCHEMA_H_
