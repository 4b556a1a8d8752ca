#include "ops/core/exchange/wire_floats.h"

#include <cstring>

namespace keras_sparse {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The upper half of a float, which is one of 8 bits of precision.
struct BFloat16 {
  static uint16_t Encode(float value) {
    const uint32_t bits = BitsOf(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
  static float Decode(uint16_t half) { return FloatOf(uint32_t{half} << 16); }
};

// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
struct Float16 {
  static uint16_t Encode(float value) {
    const uint32_t bits = BitsOf(value);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
    if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds beyond 65504
    if (magnitude < 0x38800000) {                       // below 2^-14: a multiple of 2^-24
      // Adding 0.5 shifts the fraction to where multiples of 2^-24 end, and rounds.
      return sign | static_cast<uint16_t>(BitsOf(FloatOf(magnitude) + 0.5f) - BitsOf(0.5f));
    }
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return sign | static_cast<uint16_t>((rounded >> 13) - ((127 - 15) << 10));
  }
  static float Decode(uint16_t half) {
    const uint32_t sign = uint32_t{half & 0x8000u} << 16;
    const uint32_t magnitude = half & 0x7fff;
    if (magnitude >= 0x7c00) return FloatOf(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    // As if its exponent were that of a float, and then times the difference: exact, also for what
    // has no leading 1.
    return FloatOf(sign | BitsOf(FloatOf(magnitude << 13) * 0x1p112f));
  }
};

template <typename Half>
void Encode(const float* floats, int64_t n, Word* words) {
  auto* halves = reinterpret_cast<char*>(words);
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t half = Half::Encode(floats[i]);
    std::memcpy(halves + 2 * i, &half, sizeof(half));
  }
  if (n % 2 != 0) std::memset(halves + 2 * n, 0, 2);
}

template <typename Half>
void Decode(const Word* words, int64_t n, float* floats) {
  const auto* halves = reinterpret_cast<const char*>(words);
  for (int64_t i = 0; i < n; ++i) {
    uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof(half));
    floats[i] = Half::Decode(half);
  }
}

}  // namespace

Status ParseWireType(const std::string& name, WireType* type) {
  if (name == "float32") {
    *type = WireType::kFloat32;
  } else if (name == "float16") {
    *type = WireType::kFloat16;
  } else if (name == "bfloat16") {
    *type = WireType::kBFloat16;
  } else {
    return InvalidArgument(
        "`wire_dtype` must be one of ('float32', 'float16', 'bfloat16'). Received: wire_dtype='" +
        name + "'");
  }
  return Status::Ok();
}

int64_t FloatWords(WireType type, int64_t n) {
  return type == WireType::kFloat32 ? n : (n + 1) / 2;
}

void EncodeFloats(WireType type, const float* floats, int64_t n, Word* words) {
  if (type == WireType::kFloat16) {
    Encode<Float16>(floats, n, words);
  } else if (type == WireType::kBFloat16) {
    Encode<BFloat16>(floats, n, words);
  } else if (n > 0) {
    std::memcpy(words, floats, sizeof(float) * static_cast<size_t>(n));
  }
}

void DecodeFloats(WireType type, const Word* words, int64_t n, float* floats) {
  if (type == WireType::kFloat16) {
    Decode<Float16>(words, n, floats);
  } else if (type == WireType::kBFloat16) {
    Decode<BFloat16>(words, n, floats);
  } else if (n > 0) {
    std::memcpy(floats, words, sizeof(float) * static_cast<size_t>(n));
  }
}

}  // namespace keras_sparse
