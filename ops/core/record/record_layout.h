// RecordLayout: the bytes of one record, which holds everything that a table keeps for a key.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_RECORD_LAYOUT_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_RECORD_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/math/float_type.h"

namespace keras_sparse {

// Far above any use, and low enough that the bytes of some records fit 64 bits.
constexpr int64_t kMaxOutputDim = int64_t{1} << 24;

// The types in which a record's floats are stored.
struct RecordTypes {
  FloatType row = FloatType::kFloat32;
  FloatType slots = FloatType::kFloat32;  // of slots with one float per element

  bool are_float32() const { return row == FloatType::kFloat32 && slots == FloatType::kFloat32; }
};

// An optimizer value kept beside a row.
struct Slot {
  std::string name;
  bool per_row;         // one float per row, always float32, instead of one per element
  float initial_value;  // of every float of the slot
};

// Words that a table keeps in its records under any rule.
struct KeptWords {
  bool gradient_step = false;
  bool frequency = false;
};

//
//   row (dim floats) | slot 0 | slot 1 | ... | last step | gradient's step | frequency
//
// The last three are words of 32 bits. The last step counts the rule's steps and exists only if the
// rule keeps it. The other two exist only if the table keeps them. The gradient's step counts the
// table's steps, or is the time in seconds. Steps and times wrap at 2^32, so only their differences
// are meaningful. The frequency is the number of steps in which the row had a gradient; it
// saturates at the largest number.
//
// Row and slots are adjacent, so that an update costs one trip to memory, and so that they are
// always moved and saved together. A row or slot of 16-bit floats ends at a whole word: with an odd
// dim the last 16 bits are zero.
//
// A record of 16-bit floats is *packed*. Rules work on float records (Unpacked): UnpackRecord and
// PackRecord of packed_record.h convert. `float*` points to the words of a record of either kind.
class RecordLayout {
 public:
  RecordLayout(int64_t dim, std::vector<Slot> slots, bool keeps_step)
      : dim_(dim), slots_(std::move(slots)), keeps_step_(keeps_step) {
    record_floats_ = dim_;
    for (const Slot& slot : slots_) record_floats_ += slot.per_row ? 1 : dim_;
    value_words_ = record_floats_;
  }
  RecordLayout(RecordLayout layout, KeptWords keeps, RecordTypes types = {})
      : RecordLayout(std::move(layout)) {
    keeps_ = keeps;
    types_ = types;
    parts_.assign(1, {types.row, dim_, 0, 0});
    int64_t floats = dim_;
    value_words_ = row_words();
    for (const Slot& slot : slots_) {
      const FloatType type = slot.per_row ? FloatType::kFloat32 : types.slots;
      parts_.push_back({type, slot.per_row ? 1 : dim_, floats, value_words_});
      floats += parts_.back().num_floats;
      value_words_ += slot_words(slot);
    }
  }

  // A row or a slot, and its place in a float record and in a packed one.
  struct Part {
    FloatType type;  // in the packed record
    int64_t num_floats;
    int64_t first_float;
    int64_t first_word;
  };
  // The row, then the slots.
  const std::vector<Part>& parts() const { return parts_; }

  int64_t dim() const { return dim_; }
  const std::vector<Slot>& slots() const { return slots_; }
  bool keeps_step() const { return keeps_step_; }
  bool keeps_gradient_step() const { return keeps_.gradient_step; }
  bool keeps_frequency() const { return keeps_.frequency; }
  RecordTypes types() const { return types_; }
  bool is_packed() const { return !types_.are_float32(); }
  // Returns the layout of the float records.
  RecordLayout Unpacked() const { return {*this, keeps_, RecordTypes()}; }
  // Number of floats of row and slots.
  int64_t record_floats() const { return record_floats_; }
  // Number of all stored words of `kWordBytes`: row, slots and step words. All code that needs the
  // size of a row or record calls these functions.
  static constexpr int64_t kWordBytes = sizeof(float);
  int64_t record_words() const { return kept_word() + num_kept_words(); }
  // Number of words that the table keeps, and the position of the first one.
  int64_t num_kept_words() const {
    return (keeps_.gradient_step ? 1 : 0) + (keeps_.frequency ? 1 : 0);
  }
  int64_t kept_word() const { return value_words_ + (keeps_step_ ? 1 : 0); }
  // Number of words of row and slots: the position of the last step.
  int64_t value_words() const { return value_words_; }
  int64_t row_words() const { return WordsOf(types_.row, dim_); }
  int64_t slot_words(const Slot& slot) const {
    return slot.per_row ? 1 : WordsOf(types_.slots, dim_);
  }

  int64_t record_bytes() const { return kWordBytes * record_words(); }
  int64_t row_bytes() const { return kWordBytes * row_words(); }

  // Initializes the slots of a record and marks it as last updated at `step`, without a gradient
  // yet.
  void InitializeSlots(float* record, int64_t step) const {
    float* value = record + row_words();
    for (const Slot& slot : slots_) {
      if (slot.per_row) {
        *value = slot.initial_value;
      } else {
        FillFloats(types_.slots, slot.initial_value, dim_, value);
      }
      value += slot_words(slot);
    }
    SetLastStep(record, step);
    SetFrequency(record, 0);
  }

  // Converts a record of another layout of the same dim and row type to this one: with fresh slots,
  // marked as last updated at `step`. The gradient's step and the frequency are kept.
  void LayOut(const RecordLayout& from, const float* record, int64_t step, float* laid_out) const {
    std::memcpy(laid_out, record, static_cast<size_t>(row_bytes()));
    InitializeSlots(laid_out, step);
    SetGradientStep(laid_out, from.GradientStep(record));
    SetFrequency(laid_out, from.Frequency(record));
  }

  int64_t LastStep(const float* record) const {
    return keeps_step_ ? Word(record + value_words_) : 0;
  }
  void SetLastStep(float* record, int64_t step) const {
    if (keeps_step_) SetWord(record + value_words_, static_cast<uint32_t>(step));
  }

  // Returns the step of the table, or the time, of the row's last gradient.
  uint32_t GradientStep(const float* record) const {
    return keeps_.gradient_step ? Word(record + kept_word()) : 0;
  }
  void SetGradientStep(float* record, uint32_t step) const {
    if (keeps_.gradient_step) SetWord(record + kept_word(), step);
  }

  // Returns the number of steps in which the row had a gradient.
  uint32_t Frequency(const float* record) const {
    return keeps_.frequency ? Word(record + record_words() - 1) : 0;
  }
  void SetFrequency(float* record, uint32_t frequency) const {
    if (keeps_.frequency) SetWord(record + record_words() - 1, frequency);
  }

  // Records a gradient in a step of the table.
  void CountGradient(float* record, uint32_t step) const {
    SetGradientStep(record, step);
    const uint32_t frequency = Frequency(record);
    if (frequency != UINT32_MAX) SetFrequency(record, frequency + 1);
  }

 private:
  static int64_t WordsOf(FloatType type, int64_t n) {
    return (n * FloatBytes(type) + kWordBytes - 1) / kWordBytes;
  }
  static uint32_t Word(const float* at) {
    uint32_t word;
    std::memcpy(&word, at, sizeof(word));
    return word;
  }
  static void SetWord(float* at, uint32_t word) { std::memcpy(at, &word, sizeof(word)); }

  int64_t dim_;
  std::vector<Slot> slots_;
  bool keeps_step_;
  KeptWords keeps_;
  RecordTypes types_;
  std::vector<Part> parts_;
  int64_t record_floats_;
  int64_t value_words_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_RECORD_LAYOUT_H_
