#include "ops/core/math/vector_functions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

namespace keras_sparse {
namespace vector_functions_test {

TEST(Log2, IsThatOfTheStandardLibraryForEveryNormalFloat) {
  std::mt19937 random(1);
  std::uniform_int_distribution<uint32_t> bits(0x00800000, 0x7F7FFFFF);
  for (int i = 0; i < 1000000; ++i) {
    const uint32_t pattern = bits(random);
    float x;
    std::memcpy(&x, &pattern, sizeof(x));
    ASSERT_NEAR(Log2(x), std::log2(static_cast<double>(x)), 1e-8) << x;
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

TEST(Expm1, IsThatOfTheStandardLibraryNearZeroAndFar) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> exponent(-300, std::log10(700));
  std::uniform_real_distribution<double> near(-10, 2.5);
  for (int i = 0; i < 500000; ++i) {
    for (const double size : {std::pow(10, exponent(random)), std::pow(10, near(random))}) {
      for (const double x : {size, -size}) {
        const double expected = std::expm1(x);
        ASSERT_NEAR(Expm1(x), expected, 1e-9 * std::abs(expected)) << x;
      }
    }
  }
}

TEST(Expm1, OfZeroIsZeroAndFarOutItStays) {
  EXPECT_EQ(Expm1(0), 0);
  EXPECT_EQ(Expm1(-1e9), -1);
  EXPECT_EQ(Expm1(1e9), Expm1(700));
}

}  // namespace vector_functions_test
}  // namespace keras_sparse
