#include "ops/core/record/packed_record.h"

#include <cstring>

#include "ops/core/math/half_vectors.h"
#include "ops/core/math/vector_math.h"

namespace keras_sparse {
namespace {

// The words behind the slots are equal in both kinds of record.
void CopyWordsBehind(const float* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + i, from + i, sizeof(float));
}

int64_t NumWordsBehind(const RecordLayout& layout) {
  return layout.record_words() - layout.value_words();
}

void PadWord(FloatType type, int64_t n, float* words) {
  if (type != FloatType::kFloat32 && n % 2 != 0) reinterpret_cast<uint16_t*>(words)[n] = 0;
}

// Inlined here, because a call for each part would take as long as its conversion.
inline void DecodePart(FloatType type, const float* from, int64_t n, float* to) {
  switch (type) {
    case FloatType::kBFloat16:
      return DecodeRow<BFloat16Rows>(from, n, to, false);
    case FloatType::kFloat16:
      return DecodeRow<Float16Rows>(from, n, to, false);
    default:
      return CopyRow(from, n, to);
  }
}

}  // namespace

void UnpackRecord(const RecordLayout& layout, const float* record, float* floats) {
  for (const RecordLayout::Part& part : layout.parts()) {
    DecodePart(part.type, record + part.first_word, part.num_floats, floats + part.first_float);
  }
  CopyWordsBehind(record + layout.value_words(), NumWordsBehind(layout),
                  floats + layout.record_floats());
}

void PackRecord(const RecordLayout& layout, const float* floats, const Rounding& rounding,
                int64_t key, float* record) {
  const RandomBits bits = rounding.is_random ? rounding.Of(key) : RandomBits{0, 0};
  int64_t number = 0;
  for (const RecordLayout::Part& part : layout.parts()) {
    const float* from = floats + part.first_float;
    float* to = record + part.first_word;
    const uint32_t first = rounding.FirstElement(number++);
    if (part.type == FloatType::kFloat32) {
      CopyRow(from, part.num_floats, to);
    } else if (!rounding.is_random) {
      WriteFloats(part.type, from, part.num_floats, to);
    } else if (part.type == FloatType::kBFloat16) {
      EncodeRandomly<BFloat16>(from, part.num_floats, bits, first, reinterpret_cast<uint16_t*>(to));
    } else {
      EncodeRandomly<Float16>(from, part.num_floats, bits, first, reinterpret_cast<uint16_t*>(to));
    }
    PadWord(part.type, part.num_floats, to);
  }
  CopyWordsBehind(floats + layout.record_floats(), NumWordsBehind(layout),
                  record + layout.value_words());
}

void PackRow(const RecordLayout& layout, const float* row, float* record) {
  WriteFloats(layout.types().row, row, layout.dim(), record);
  PadWord(layout.types().row, layout.dim(), record);
}

void RoundRecord(const RecordLayout& layout, float* floats) {
  for (const RecordLayout::Part& part : layout.parts()) {
    RoundFloats(part.type, part.num_floats, floats + part.first_float);
  }
}

}  // namespace keras_sparse
