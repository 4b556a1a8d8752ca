#include "ops/core/math/float_type.h"

#include <cmath>

#include "ops/core/math/vector_math.h"
#include "tests/ops/core/support/testing.h"

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace keras_sparse::float_type_test {

// As TensorFlow has the processor while a kernel runs: floats below the normal ones are zeros.
class FlushesDenormals {
 public:
#ifdef __SSE__
  FlushesDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kAreZeros); }
  ~FlushesDenormals() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kAreZeros = 0x0040;
  const unsigned before_;
#endif
};

// By the definition of IEEE 754; NaN for all of its codes.
double ValueOfFloat16(uint32_t half) {
  const double sign = half < 0x8000 ? 1 : -1;
  const auto exponent = static_cast<int>((half >> 10) & 0x1f);
  const double fraction = half & 0x3ff;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent < 31) return sign * std::ldexp(1024 + fraction, exponent - 25);
  return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
}

TEST(FloatType, EveryFloat16IsReadAndWrittenAtAnyPlace) {
  const FlushesDenormals mode;
  for (int64_t n = 1; n <= 21; ++n) {
    std::vector<uint16_t> halves(static_cast<size_t>(n));
    std::vector<uint16_t> back(halves.size());
    std::vector<float> floats(halves.size());
    for (uint32_t first = 0; first < 0x10000; first += static_cast<uint32_t>(n)) {
      for (size_t i = 0; i < halves.size(); ++i) {
        halves[i] = static_cast<uint16_t>(first + i);
      }
      ReadFloats(FloatType::kFloat16, halves.data(), n, floats.data());
      WriteFloats(FloatType::kFloat16, floats.data(), n, back.data());
      for (size_t i = 0; i < halves.size(); ++i) {
        const double value = ValueOfFloat16(halves[i]);
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(floats[i])) << halves[i];
          ASSERT_TRUE(std::isnan(ValueOfFloat16(back[i]))) << halves[i];
        } else {
          ASSERT_EQ(static_cast<double>(floats[i]), value) << halves[i] << " at " << i;
          ASSERT_EQ(back[i], halves[i]) << "at " << i;
        }
      }
    }
  }
}

TEST(FloatType, EveryBFloat16IsReadAndWritten) {
  const FlushesDenormals mode;
  std::vector<uint16_t> halves;
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const bool is_nan = (half & 0x7fff) > 0x7f80;
    if (!is_nan) halves.push_back(static_cast<uint16_t>(half));
  }
  const auto n = static_cast<int64_t>(halves.size());
  std::vector<float> floats(halves.size());
  std::vector<uint16_t> back(halves.size());
  ReadFloats(FloatType::kBFloat16, halves.data(), n, floats.data());
  WriteFloats(FloatType::kBFloat16, floats.data(), n, back.data());
  EXPECT_EQ(back, halves);
  const auto bits = Bits(floats);
  for (size_t i = 0; i < halves.size(); ++i) ASSERT_EQ(bits[i], uint32_t{halves[i]} << 16);
}

TEST(FloatType, RowsOfAnyTypeAreAddedAsFloats) {
  const FlushesDenormals mode;
  for (const int64_t dim : {1, 3, 4, 8, 13, 64, 65, 200}) {
    std::vector<float> row = RandomFloats(dim, 1);
    row[0] *= 1e-5f;
    for (const FloatType type : {FloatType::kFloat32, FloatType::kFloat16, FloatType::kBFloat16}) {
      std::vector<char> written(static_cast<size_t>(dim * FloatBytes(type)));
      WriteFloats(type, row.data(), dim, written.data());
      std::vector<float> read(row.size());
      ReadFloats(type, written.data(), dim, read.data());
      std::vector<float> expected = RandomFloats(dim, 2);
      std::vector<float> sum = expected;
      AddScaled(0.7f, read.data(), dim, expected.data());
      AddScaled(type, 0.7f, written.data(), dim, sum.data());
      EXPECT_EQ(Bits(sum), Bits(expected)) << dim;
    }
  }
}

// The grid of a type around a finite float.
struct Grid {
  double spacing;  // of the numbers around the float
  double most;     // the largest number

  static Grid Of(FloatType type, double value) {
    const bool is_float16 = type == FloatType::kFloat16;
    const int digits = is_float16 ? 11 : 8;
    const int exponent = value == 0 ? -1000 : std::ilogb(value);
    const int least = is_float16 ? -14 : -126;
    const double below = 1 - std::ldexp(1, -digits);  // the largest one below 1
    return {std::ldexp(1, std::max(exponent, least) + 1 - digits),
            std::ldexp(below, is_float16 ? 16 : 128)};
  }
};

double Decoded(FloatType type, uint16_t half) {
  return type == FloatType::kFloat16 ? ValueOfFloat16(half) : double{BFloat16::Decode(half)};
}
uint16_t RoundedRandomly(FloatType type, float value, uint32_t random) {
  return type == FloatType::kFloat16 ? Float16::EncodeRandomly(value, random)
                                     : BFloat16::EncodeRandomly(value, random);
}

// Of all sizes that have neighbours on both sides, and of both signs.
std::vector<float> ManyFloats(FloatType type, int64_t n) {
  std::vector<float> floats;
  uint64_t random = 7;
  const bool is_float16 = type == FloatType::kFloat16;
  while (static_cast<int64_t>(floats.size()) < n) {
    const auto exponent = static_cast<int>(NextRandom(&random) % (is_float16 ? 40 : 250));
    const float fraction = 1 + static_cast<float>(NextRandom(&random) % (1 << 23)) * 0x1p-23f;
    const float value = std::ldexp(fraction, exponent - (is_float16 ? 25 : 125));
    if (value > Grid::Of(type, double{value}).most) continue;
    floats.push_back(floats.size() % 2 == 0 ? value : -value);
  }
  return floats;
}

constexpr FloatType kHalfTypes[] = {FloatType::kFloat16, FloatType::kBFloat16};

// Summed over all random numbers, which are equally likely.
TEST(RandomRounding, GoesToOneOfTwoNeighboursAndIsUnbiased) {
  const FlushesDenormals mode;
  for (const FloatType type : kHalfTypes) {
    for (const float value : ManyFloats(type, 200)) {
      const auto [spacing, most] = Grid::Of(type, double{value});
      const double low = std::floor(double{value} / spacing) * spacing;
      double sum = 0;
      for (uint32_t random = 0; random < 0x10000; ++random) {
        const double rounded = Decoded(type, RoundedRandomly(type, value, random));
        ASSERT_TRUE(rounded == low || rounded == low + spacing) << value << " to " << rounded;
        sum += rounded - low;
      }
      // 13 bits decide about a float16: as many as a float has more, unless it is below 2^-14.
      const bool is_exact = type == FloatType::kBFloat16 || std::abs(value) >= 0x1p-14f;
      const double allowed = is_exact ? 0 : spacing * 0x1p-13;
      ASSERT_NEAR(sum / 0x10000, double{value} - low, allowed) << value;
    }
  }
}

TEST(RandomRounding, KeepsEveryNumberOfTheType) {
  const FlushesDenormals mode;
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const auto half = static_cast<uint16_t>(code);
    for (const uint32_t random : {0u, 1u, 0x7fffu, 0x8000u, 0xffffu}) {
      const bool is_nan16 = (code & 0x7fff) > 0x7c00;
      const bool is_nan = (code & 0x7fff) > 0x7f80;
      ASSERT_EQ(Float16::EncodeRandomly(Float16::Decode(half), random),
                is_nan16 ? half | 0x200 : half);
      ASSERT_EQ(BFloat16::EncodeRandomly(BFloat16::Decode(half), random),
                is_nan ? half | 0x40 : half);
    }
  }
}

TEST(RandomRounding, KeepsWhatIsBeyondTheRange) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr FloatType k16 = FloatType::kFloat16;
  constexpr FloatType kB16 = FloatType::kBFloat16;
  struct Case {
    FloatType type;
    float value;
    uint16_t low;   // of random 0
    uint16_t high;  // of the largest random
  };
  const FlushesDenormals mode;
  for (const Case& each : std::vector<Case>{
           {k16, 65504, 0x7bff, 0x7bff},
           {k16, 65504.004f, 0x7bff, 0x7bff},  // a finite one stays finite
           {k16, 65519.996f, 0x7bff, 0x7bff},
           {k16, 65520, 0x7c00, 0x7c00},  // as rounded to the nearest
           {k16, 65536, 0x7c00, 0x7c00},
           {k16, kMost, 0x7c00, 0x7c00},
           {k16, kInfinity, 0x7c00, 0x7c00},
           {k16, 0x1p-24f, 1, 1},
           {k16, 0x1p-25f, 0, 1},
           {k16, 1e-30f, 0, 0},
           {k16, 1e-45f, 0, 0},
           {k16, 0, 0, 0},
           {k16, 0x1.ffep-15f, 0x03ff, 0x0400},
           {kB16, 0x1.fep127f, 0x7f7f, 0x7f7f},
           {kB16, kMost, 0x7f7f, 0x7f80},
           {kB16, kInfinity, 0x7f80, 0x7f80},
           {kB16, 65536, 0x4780, 0x4780},
           {kB16, 0x1p-133f, 1, 1},
           {kB16, 1e-45f, 0, 1},
           {kB16, 0, 0, 0},
       }) {
    for (const uint16_t sign : {0, 0x8000}) {
      const float value = sign == 0 ? each.value : -each.value;
      EXPECT_EQ(RoundedRandomly(each.type, value, 0), each.low | sign) << value;
      EXPECT_EQ(RoundedRandomly(each.type, value, 0xffff), each.high | sign) << value;
    }
  }
}

// By vectors, as far as there are whole blocks of the random bits, or one by one.
TEST(RandomRounding, GivesTheSameBitsAtAnyPlace) {
  const FlushesDenormals mode;
  const auto bits = RandomBits::Of(1, 2, 3);
  for (const FloatType type : kHalfTypes) {
    std::vector<float> floats = ManyFloats(type, 100);
    constexpr uint32_t kOdd[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                 0xffc00000, 0x7f812345, 0xfff54321, 1,          0x80012345,
                                 0x7f7fffff, 0x477fefff, 0x477ff000, 0x47800000, 0x38800000};
    for (size_t i = 0; i < std::size(kOdd); ++i) floats[3 * i + i % 2] = FloatOf(kOdd[i]);
    for (int64_t n = 0; n <= 40; ++n) {
      for (const uint32_t first : {0u, 16u, 5u, 8u, 1u << 24, (2u << 24) + 48, (3u << 24) + 15}) {
        const float* from = floats.data() + n % 37;
        std::vector<uint16_t> halves(static_cast<size_t>(n) + 1, 0x1234);
        WriteFloatsRandomly(type, from, n, bits, first, halves.data());
        for (int64_t i = 0; i < n; ++i) {
          const uint32_t random = bits.At(first + static_cast<uint32_t>(i));
          ASSERT_EQ(halves[static_cast<size_t>(i)], RoundedRandomly(type, from[i], random))
              << from[i] << " at " << i << " of " << n << " from " << first;
        }
        ASSERT_EQ(halves.back(), 0x1234);
      }
    }
    std::vector<uint16_t> nearest(floats.size());
    WriteFloats(type, floats.data(), static_cast<int64_t>(floats.size()), nearest.data());
    for (size_t i = 0; i < floats.size(); ++i) {
      ASSERT_EQ(nearest[i], type == FloatType::kFloat16 ? Float16::Encode(floats[i])
                                                        : BFloat16::Encode(floats[i]));
    }
  }
  std::vector<float> copies(9);
  const std::vector<float> floats = RandomFloats(9, 1);
  WriteFloatsRandomly(FloatType::kFloat32, floats.data(), 9, bits, 0, copies.data());
  EXPECT_EQ(Bits(copies), Bits(floats));
}

}  // namespace keras_sparse::float_type_test
