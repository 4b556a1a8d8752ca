// Records of bfloat16, which are read and updated as float32.
#ifndef KERAS_SPARSE_BENCHMARKS_FLOOR_BFLOAT16_H_
#define KERAS_SPARSE_BENCHMARKS_FLOOR_BFLOAT16_H_

#include <cstdint>
#include <cstring>

namespace plain {

// Rounds to the nearest, which takes the fewest instructions. Floats are finite.
inline uint16_t ToBfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float FromBfloat16(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <int floats>
void Widen(const float* record, float* to) {
  uint16_t halves[floats];
  std::memcpy(halves, record, sizeof(halves));
  for (int i = 0; i < floats; ++i) to[i] = FromBfloat16(halves[i]);
}

// A lookup reads float32 rows of these records.
struct Widened {
  template <int D>
  static constexpr int kFloats = D / 2;
  template <int D>
  const float* Row(const float* record, float* made) const {
    Widen<D>(record, made);
    return made;
  }
};

// Updates these records by a rule for float32.
template <class Rule>
struct Narrowed {
  template <int D>
  static constexpr int kFloats = Rule::template kFloats<D> / 2;
  Rule rule;
  template <int D>
  void Update(float* record, const float* g) const {
    constexpr int floats = Rule::template kFloats<D>;
    float wide[floats];
    Widen<floats>(record, wide);
    rule.template Update<D>(wide, g);
    uint16_t halves[floats];
    for (int i = 0; i < floats; ++i) halves[i] = ToBfloat16(wide[i]);
    std::memcpy(record, halves, sizeof(halves));
  }
};

}  // namespace plain

#endif  // KERAS_SPARSE_BENCHMARKS_FLOOR_BFLOAT16_H_
