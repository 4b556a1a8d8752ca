#include "ops/core/math/vector_functions.h"

#include <cmath>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::vector_functions_test {

TEST(Log2, IsThatOfTheStandardLibraryForEveryNormalFloat) {
  std::mt19937 random(1);
  std::uniform_int_distribution<uint32_t> bits(0x00800000, 0x7F7FFFFF);
  for (int i = 0; i < 1000000; ++i) {
    const uint32_t pattern = bits(random);
    float x;
    std::memcpy(&x, &pattern, sizeof(x));
    ASSERT_NEAR(Log2(x), std::log2(static_cast<double>(x)), 4e-10) << x;
  }
}

TEST(Log2, OfPowersOfTwoIsExact) {
  for (int exponent = -126; exponent <= 127; ++exponent) {
    EXPECT_EQ(Log2(std::ldexp(1.0f, exponent)), exponent);
  }
}

TEST(Log2, OfNumbersThatAreNoneIsFar) {
  // What callers sort out themselves is a finite number all the same.
  EXPECT_LT(Log2(0), -126);
  EXPECT_GE(Log2(std::numeric_limits<float>::infinity()), 128);
}

// Of a unit in the last place: what is left of a number from 1 to 2.
constexpr double kUnit = 0x1p-52;

// Numbers of all sizes, and many near to one and to zero.
class Numbers {
 public:
  double Positive() {
    const double mantissa = 1 + Unit();
    if (random_() % 2 == 0) return std::ldexp(mantissa, static_cast<int>(random_() % 2097) - 1074);
    return random_() % 2 == 0 ? mantissa : 1 - Unit() / 1000;
  }
  // Its size from 1e-300 to `greatest`, of either sign.
  double Exponent(double greatest) {
    const double size =
        random_() % 2 == 0 ? greatest * Unit() : std::pow(10, -300 * Unit()) * greatest;
    return random_() % 2 == 0 ? size : -size;
  }
  double Unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 random_{2};
};

constexpr int kNumbers = 500000;

TEST(Log, IsThatOfTheStandardLibraryForEveryDouble) {
  Numbers numbers;
  for (int i = 0; i < kNumbers; ++i) {
    const double x = numbers.Positive();
    const double expected = std::log(x);
    ASSERT_NEAR(Log(x), expected, kUnit * std::abs(expected)) << x;
  }
  EXPECT_EQ(Log(1), 0);
  EXPECT_EQ(Log(std::numeric_limits<double>::denorm_min()), std::log(0x1p-1074));
}

TEST(Log, HasTheEndsOfTheStandardLibrary) {
  EXPECT_EQ(Log(0), -kInfinity);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Log(-1)));
  EXPECT_TRUE(std::isnan(Log(-kInfinity)));
  EXPECT_TRUE(std::isnan(Log(kNan)));
}

TEST(Log1p, IsThatOfTheStandardLibraryNearZeroAndFar) {
  Numbers numbers;
  for (int i = 0; i < kNumbers; ++i) {
    for (const double x : {numbers.Exponent(1e9), numbers.Exponent(0.9999)}) {
      if (x <= -1) continue;
      const double expected = std::log1p(x);
      ASSERT_NEAR(Log1p(x), expected, 2 * kUnit * std::abs(expected)) << x;
    }
  }
  EXPECT_EQ(Log1p(0), 0);
  EXPECT_EQ(Log1p(-1), -kInfinity);
  EXPECT_EQ(Log1p(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Log1p(-2)));
  EXPECT_TRUE(std::isnan(Log1p(kNan)));
}

TEST(Exp, IsThatOfTheStandardLibraryAsFarAsThereAreDoubles) {
  Numbers numbers;
  for (int i = 0; i < kNumbers; ++i) {
    for (const double x : {numbers.Exponent(708), numbers.Exponent(2)}) {
      const double expected = std::exp(x);
      ASSERT_NEAR(Exp(x), expected, kUnit * expected) << x;
    }
  }
  // Denormal numbers have a few digits.
  for (double x = -709; x > -746; x -= 0.25) ASSERT_NEAR(Exp(x), std::exp(x), 0x1p-1074) << x;
}

TEST(Exp, HasTheEndsOfTheStandardLibrary) {
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Exp(710), kInfinity);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(-746), 0);
  EXPECT_EQ(Exp(-kInfinity), 0);
  EXPECT_TRUE(std::isnan(Exp(kNan)));
}

TEST(Expm1, IsThatOfTheStandardLibraryNearZeroAndFar) {
  Numbers numbers;
  for (int i = 0; i < kNumbers; ++i) {
    for (const double x : {numbers.Exponent(700), numbers.Exponent(2)}) {
      const double expected = std::expm1(x);
      ASSERT_NEAR(Expm1(x), expected, 2 * kUnit * std::abs(expected)) << x;
    }
  }
}

TEST(Expm1, OfZeroIsZeroAndFarOutItStays) {
  EXPECT_EQ(Expm1(0), 0);
  EXPECT_EQ(Expm1(-1e9), -1);
  EXPECT_EQ(Expm1(1e9), Expm1(700));
  EXPECT_TRUE(std::isnan(Expm1(kNan)));
}

TEST(Pow, IsThatOfTheStandardLibraryAsFarAsThereAreFloats) {
  Numbers numbers;
  for (int i = 0; i < kNumbers; ++i) {
    const auto x = static_cast<float>(numbers.Positive());
    for (const float power : {0.3f, 0.8f, static_cast<float>(8 * numbers.Unit())}) {
      const double expected = std::pow(static_cast<double>(x), static_cast<double>(power));
      if (expected > static_cast<double>(std::numeric_limits<float>::max())) {
        ASSERT_EQ(Pow(x, power), std::numeric_limits<float>::infinity()) << x << "^" << power;
      } else {
        ASSERT_NEAR(Pow(x, power), expected, 8e-8 * expected + 0x1p-149) << x << "^" << power;
      }
    }
  }
}

TEST(Pow, HasTheEndsOfTheStandardLibrary) {
  constexpr auto kGreatest = static_cast<float>(kInfinity);
  for (const float power : {0.001f, 0.3f, 1.0f, 100.0f}) {
    EXPECT_EQ(Pow(0, power), 0);
    EXPECT_EQ(Pow(1, power), 1);
    EXPECT_EQ(Pow(kGreatest, power), kGreatest);
    EXPECT_TRUE(std::isnan(Pow(std::numeric_limits<float>::quiet_NaN(), power)));
  }
  for (const float x : {0.0f, 1e-30f, 2.0f}) EXPECT_EQ(Pow(x, 0), 1);
  EXPECT_EQ(Pow(1e30f, 1000), kGreatest);
  EXPECT_EQ(Pow(1e-30f, 1000), 0);
}

}  // namespace keras_sparse::vector_functions_test
