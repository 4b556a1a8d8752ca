// Blocks of 16-bit floats: conversions in vector registers.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_HALF_VECTORS_H_
#define KERAS_SPARSE_OPS_CORE_MATH_HALF_VECTORS_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/core/math/half_floats.h"
#include "ops/core/math/random_bits.h"
#include "ops/core/math/vector_math.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace keras_sparse {

using Words = IntegersOf<Vector8>::Words;
using Halves = IntegersOf<Vector8>::Halves;
static_assert(RandomBits::kLanes == 8);

// Rounds a vector of floats: EncodeRandomly of each.
template <typename Half>
inline Halves EncodeLanes(const float* floats, Words random);

// The words whose upper halves EncodeLanes<BFloat16> returns.
inline Words DitheredBFloat16(const float* floats, Words random) {
  const auto values = LoadVector<Vector8>(floats);
  Words bits;
  std::memcpy(&bits, &values, sizeof(bits));
  return values != values ? bits | 0x400000 : bits + random;
}

template <>
inline Halves EncodeLanes<BFloat16>(const float* floats, Words random) {
  return __builtin_convertvector(DitheredBFloat16(floats, random) >> 16, Halves);
}

// Float16::Dithered of each.
inline Vector8 Dithered(Vector8 values, Words random) {
  Words bits;
  std::memcpy(&bits, &values, sizeof(bits));
  const Words magnitudes = bits & 0x7fffffff;
  const Words fractions = random >> 3;
  Vector8 small;
  std::memcpy(&small, &magnitudes, sizeof(small));
  using Integers = int32_t __attribute__((vector_size(32)));
  small +=
      __builtin_convertvector(__builtin_convertvector(fractions, Integers), Vector8) * 0x1p-37f;
  Words small_bits;
  std::memcpy(&small_bits, &small, sizeof(small_bits));
  const Words finite = magnitudes < 0x38800000 ? small_bits : magnitudes + fractions;
  const Words infinite = Words{} + 0x7f800000;
  const Words beyond = magnitudes > infinite ? magnitudes : infinite;
  const Words dithered = (bits & 0x80000000) | (magnitudes < 0x477ff000 ? finite : beyond);
  std::memcpy(&values, &dithered, sizeof(values));
  return values;
}

template <>
inline Halves EncodeLanes<Float16>(const float* floats, Words random) {
  const Vector8 dithered = Dithered(LoadVector<Vector8>(floats), random);
  Halves halves;
#ifdef __F16C__
  const __m128i eight = _mm256_cvtps_ph(dithered, _MM_FROUND_TO_ZERO);
  std::memcpy(&halves, &eight, sizeof(halves));
#else
  for (int i = 0; i < 8; ++i) halves[i] = Float16::Truncate(dithered[i]);
#endif
  return halves;
}

// Rounds RandomBits::kBlock floats: EncodeRandomly of each.
//   first  the number of the first one among the elements of `bits`
// REQUIRES: first % RandomBits::kBlock == 0
template <typename Half>
inline void EncodeBlockRandomly(const float* floats, const RandomBits& bits, uint32_t first,
                                uint16_t* halves) {
  constexpr uint32_t kLanes = RandomBits::kLanes;
  const Words index = Words{0, 1, 2, 3, 4, 5, 6, 7} + first / 2;
  const Words random = bits.Word(index);
#ifdef __AVX2__
  if constexpr (std::is_same_v<Half, BFloat16>) {  // both vectors are narrowed at once
    const auto low = reinterpret_cast<__m256i>(DitheredBFloat16(floats, random & 0xffff) >> 16);
    const auto high =
        reinterpret_cast<__m256i>(DitheredBFloat16(floats + kLanes, random >> 16) >> 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(halves), packed);
    return;
  }
#endif
  const Halves low = EncodeLanes<Half>(floats, random & 0xffff);
  const Halves high = EncodeLanes<Half>(floats + kLanes, random >> 16);
  std::memcpy(halves, &low, sizeof(low));
  std::memcpy(halves + kLanes, &high, sizeof(high));
}

// Rounds n floats: EncodeRandomly of each. Element i of `floats` is element `first + i` of `bits`.
template <typename Half>
inline void EncodeRandomly(const float* floats, int64_t n, const RandomBits& bits, uint32_t first,
                           uint16_t* halves) {
  int64_t i = 0;
  const int64_t end = first % RandomBits::kBlock == 0 ? n : 0;
  for (; i + RandomBits::kBlock <= end; i += RandomBits::kBlock) {
    EncodeBlockRandomly<Half>(floats + i, bits, first + static_cast<uint32_t>(i), halves + i);
  }
  for (; i < n; ++i) {
    halves[i] = Half::EncodeRandomly(floats[i], bits.At(first + static_cast<uint32_t>(i)));
  }
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_HALF_VECTORS_H_
