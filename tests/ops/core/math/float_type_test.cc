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

}  // namespace keras_sparse::float_type_test
