#include "ops/core/math/float_type.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/core/math/half_floats.h"
#include "ops/core/math/half_vectors.h"
#include "ops/core/math/vector_math.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace keras_sparse {
namespace {

// Returns how many of the first floats were converted by special instructions.
template <typename Half>
struct Vectors {
  static int64_t EncodeSome(const float*, int64_t, char*) { return 0; }
  static int64_t DecodeSome(const char*, int64_t, float*) { return 0; }
};

template <>
struct Vectors<Float16> {
  static int64_t EncodeSome([[maybe_unused]] const float* floats, [[maybe_unused]] int64_t n,
                            [[maybe_unused]] char* halves) {
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8) {
      const __m128i eight = _mm256_cvtps_ph(_mm256_loadu_ps(floats + i), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + 2 * i), eight);
    }
    if (i + 4 <= n) {
      const __m128i four = _mm_cvtps_ph(_mm_loadu_ps(floats + i), _MM_FROUND_TO_NEAREST_INT);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(halves + 2 * i), four);
      i += 4;
    }
#endif
    return i;
  }
  static int64_t DecodeSome([[maybe_unused]] const char* halves, [[maybe_unused]] int64_t n,
                            [[maybe_unused]] float* floats) {
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8) {
      const auto* eight = reinterpret_cast<const __m128i*>(halves + 2 * i);
      _mm256_storeu_ps(floats + i, _mm256_cvtph_ps(_mm_loadu_si128(eight)));
    }
    if (i + 4 <= n) {
      const auto* four = reinterpret_cast<const __m128i*>(halves + 2 * i);
      _mm_storeu_ps(floats + i, _mm_cvtph_ps(_mm_loadl_epi64(four)));
      i += 4;
    }
#endif
    return i;
  }
};

template <typename Half>
void Encode(const float* floats, int64_t n, char* halves) {
  for (int64_t i = Vectors<Half>::EncodeSome(floats, n, halves); i < n; ++i) {
    const uint16_t half = Half::Encode(floats[i]);
    std::memcpy(halves + 2 * i, &half, sizeof(half));
  }
}

template <typename Half>
void Decode(const char* halves, int64_t n, float* floats) {
  for (int64_t i = Vectors<Half>::DecodeSome(halves, n, floats); i < n; ++i) {
    uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof(half));
    floats[i] = Half::Decode(half);
  }
}

// For rows of a few numbers, for which another call takes longer than the sums.
template <typename Half>
void AddEachScaled(float weight, const char* halves, int64_t n, float* sum) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof(half));
    sum[i] += weight * Half::Decode(half);
  }
}

}  // namespace

void WriteFloats(FloatType type, const float* floats, int64_t n, void* to) {
  if (type == FloatType::kFloat16) {
    Encode<Float16>(floats, n, static_cast<char*>(to));
  } else if (type == FloatType::kBFloat16) {
    Encode<BFloat16>(floats, n, static_cast<char*>(to));
  } else if (n > 0) {
    std::memcpy(to, floats, sizeof(float) * static_cast<size_t>(n));
  }
}

void WriteFloatsRandomly(FloatType type, const float* floats, int64_t n, const RandomBits& bits,
                         uint32_t first, void* to) {
  if (type == FloatType::kFloat32) return WriteFloats(type, floats, n, to);
  auto* halves = static_cast<uint16_t*>(to);
  if (type == FloatType::kFloat16) {
    EncodeRandomly<Float16>(floats, n, bits, first, halves);
  } else {
    EncodeRandomly<BFloat16>(floats, n, bits, first, halves);
  }
}

void FillFloats(FloatType type, float value, int64_t n, void* to) {
  if (type == FloatType::kFloat32) {
    std::fill_n(static_cast<float*>(to), n, value);
    return;
  }
  const uint16_t half =
      type == FloatType::kFloat16 ? Float16::Encode(value) : BFloat16::Encode(value);
  auto* halves = static_cast<uint16_t*>(to);
  std::fill_n(halves, n, half);
  if (n % 2 != 0) halves[n] = 0;
}

void ReadFloats(FloatType type, const void* from, int64_t n, float* floats) {
  if (type == FloatType::kFloat16) {
    Decode<Float16>(static_cast<const char*>(from), n, floats);
  } else if (type == FloatType::kBFloat16) {
    Decode<BFloat16>(static_cast<const char*>(from), n, floats);
  } else if (n > 0) {
    std::memcpy(floats, from, sizeof(float) * static_cast<size_t>(n));
  }
}

void RoundFloats(FloatType type, int64_t n, float* floats) {
  if (type == FloatType::kFloat32) return;
  constexpr int64_t kPiece = 64;
  std::array<uint16_t, kPiece> piece;
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t size = std::min(kPiece, n - i);
    WriteFloats(type, floats + i, size, piece.data());
    ReadFloats(type, piece.data(), size, floats + i);
  }
}

void AddScaled(FloatType type, float weight, const void* row, int64_t dim, float* sum) {
  if (type == FloatType::kFloat32) {
    return AddScaled(weight, static_cast<const float*>(row), dim, sum);
  }
  const auto* halves = static_cast<const char*>(row);
  if (dim < 4) {
    return type == FloatType::kFloat16 ? AddEachScaled<Float16>(weight, halves, dim, sum)
                                       : AddEachScaled<BFloat16>(weight, halves, dim, sum);
  }
  constexpr int64_t kPiece = 64;
  std::array<float, kPiece> piece;
  for (int64_t i = 0; i < dim; i += kPiece) {
    const int64_t n = std::min(kPiece, dim - i);
    ReadFloats(type, halves + 2 * i, n, piece.data());
    AddScaled(weight, piece.data(), n, sum + i);
  }
}

}  // namespace keras_sparse
