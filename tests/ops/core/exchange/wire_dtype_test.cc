#include "ops/core/exchange/wire_dtype.h"

#include <cmath>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::wire_dtype_test {

float There(FloatType type, float value) {
  Word word = 0;
  float back = 0;
  EncodeFloats(type, &value, 1, &word);
  DecodeFloats(type, &word, 1, &back);
  return back;
}

// The nearest number of so many bits of precision, down to multiples of `smallest`; ties to even.
double Nearest(double value, int precision, double smallest) {
  if (value == 0) return 0;
  const double unit = std::max(std::ldexp(1.0, std::ilogb(value) - precision + 1), smallest);
  return std::nearbyint(value / unit) * unit;
}

TEST(WireDtype, RoundToTheNearest) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponents(-26, 15.9);
  for (int i = 0; i < 200000; ++i) {
    const double magnitude = std::exp2(exponents(random));
    const auto value = static_cast<float>(i % 2 == 0 ? magnitude : -magnitude);
    ASSERT_EQ(There(FloatType::kFloat16, value), Nearest(value, 11, 0x1p-24)) << value;
    ASSERT_EQ(There(FloatType::kBFloat16, value), Nearest(value, 8, 0)) << value;
    ASSERT_EQ(There(FloatType::kFloat32, value), value);
  }
}

TEST(WireDtype, KeepEveryHalfAndItsTies) {
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    Word word = static_cast<Word>(half);
    float value = 0;
    DecodeFloats(FloatType::kFloat16, &word, 1, &value);
    ASSERT_EQ(There(FloatType::kFloat16, value), value);
    ASSERT_EQ(There(FloatType::kFloat16, -value), -value);
    if (half == 0x7bff) continue;
    float next = 0;
    word = static_cast<Word>(half + 1);
    DecodeFloats(FloatType::kFloat16, &word, 1, &next);
    ASSERT_EQ(There(FloatType::kFloat16, (value + next) / 2), half % 2 == 0 ? value : next);
  }
}

TEST(WireDtype, KeepWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const FloatType type : {FloatType::kFloat32, FloatType::kFloat16, FloatType::kBFloat16}) {
    EXPECT_EQ(There(type, infinity), infinity);
    EXPECT_EQ(There(type, -infinity), -infinity);
    EXPECT_TRUE(std::isnan(There(type, std::nanf(""))));
    EXPECT_TRUE(std::signbit(There(type, -0.0f)));
  }
  EXPECT_EQ(There(FloatType::kFloat16, 65519.0f), 65504.0f);
  EXPECT_EQ(There(FloatType::kFloat16, 65520.0f), infinity);
  EXPECT_EQ(There(FloatType::kFloat16, -1e30f), -infinity);
  EXPECT_EQ(There(FloatType::kBFloat16, std::numeric_limits<float>::max()), infinity);
}

TEST(WireDtype, TwoShareAWord) {
  for (int64_t n = 0; n < 20; ++n) {
    const std::vector<float> floats = RandomFloats(n, 1);
    for (const FloatType type : {FloatType::kFloat16, FloatType::kBFloat16}) {
      ASSERT_EQ(FloatWords(type, n), (n + 1) / 2);
      std::vector<Word> words(static_cast<size_t>(FloatWords(type, n)) + 1, 77);
      std::vector<float> back(floats.size());
      EncodeFloats(type, floats.data(), n, words.data());
      EXPECT_EQ(words.back(), 77);
      DecodeFloats(type, words.data(), n, back.data());
      for (size_t i = 0; i < floats.size(); ++i) EXPECT_EQ(back[i], There(type, floats[i]));
    }
  }
}

TEST(WireDtype, RefusesOtherNames) {
  FloatType type = FloatType::kFloat32;
  EXPECT_TRUE(IsOk(ParseFloatType("bfloat16", "wire_dtype", &type)));
  EXPECT_EQ(type, FloatType::kBFloat16);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "wire_dtype='int8'",
                        ParseFloatType("int8", "wire_dtype", &type)));
}

}  // namespace keras_sparse::wire_dtype_test
