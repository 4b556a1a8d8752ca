#include "ops/core/record/packed_record.h"

#include <cstddef>
#include <cstring>

namespace keras_sparse {
namespace {

// Calls do_values(number, type, n, floats, words) for the row (0) and each slot, with their
// positions in a float record and in a packed one.
template <typename DoValues>
void ForEachPart(const RecordLayout& layout, const DoValues& do_values) {
  int64_t floats = layout.dim();
  int64_t words = layout.row_words();
  do_values(0, layout.types().row, layout.dim(), 0, 0);
  int64_t number = 0;
  for (const Slot& slot : layout.slots()) {
    const int64_t n = slot.per_row ? 1 : layout.dim();
    const FloatType type = slot.per_row ? FloatType::kFloat32 : layout.types().slots;
    do_values(++number, type, n, floats, words);
    floats += n;
    words += layout.slot_words(slot);
  }
}

// The words behind the slots are equal in both kinds of record.
size_t BytesBehind(const RecordLayout& layout) {
  return static_cast<size_t>(RecordLayout::kWordBytes *
                             (layout.record_words() - layout.value_words()));
}

void PadWord(FloatType type, int64_t n, float* words) {
  if (type != FloatType::kFloat32 && n % 2 != 0) reinterpret_cast<uint16_t*>(words)[n] = 0;
}

}  // namespace

void UnpackRecord(const RecordLayout& layout, const float* record, float* floats) {
  ForEachPart(layout, [&](int64_t, FloatType type, int64_t n, int64_t to, int64_t from) {
    ReadFloats(type, record + from, n, floats + to);
  });
  std::memcpy(floats + layout.record_floats(), record + layout.value_words(), BytesBehind(layout));
}

void PackRecord(const RecordLayout& layout, const float* floats, const Rounding& rounding,
                int64_t key, float* record) {
  const RandomBits bits = rounding.is_random ? rounding.Of(key) : RandomBits{0, 0};
  ForEachPart(layout, [&](int64_t number, FloatType type, int64_t n, int64_t from, int64_t to) {
    if (rounding.is_random) {
      WriteFloatsRandomly(type, floats + from, n, bits, rounding.FirstElement(number), record + to);
    } else {
      WriteFloats(type, floats + from, n, record + to);
    }
    PadWord(type, n, record + to);
  });
  std::memcpy(record + layout.value_words(), floats + layout.record_floats(), BytesBehind(layout));
}

void PackRow(const RecordLayout& layout, const float* row, float* record) {
  WriteFloats(layout.types().row, row, layout.dim(), record);
  PadWord(layout.types().row, layout.dim(), record);
}

void RoundRecord(const RecordLayout& layout, float* floats) {
  ForEachPart(layout, [&](int64_t, FloatType type, int64_t n, int64_t from, int64_t) {
    RoundFloats(type, n, floats + from);
  });
}

}  // namespace keras_sparse
