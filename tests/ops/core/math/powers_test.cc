#include "ops/core/math/powers.h"

#include <cmath>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::powers_test {

TEST(Powers, AreThoseOfPow) {
  for (const double base : {0.25, 0.9, 0.999, 0.99999, static_cast<double>(0.999f)}) {
    const Powers powers(base);
    for (const int64_t n :
         {1, 2, 255, 256, 257, 511, 512, 1000, 65280, 65535, 65536, 1000000, 100000000}) {
      const double expected = std::pow(base, n);
      EXPECT_NEAR(powers(n), expected, 1e-15 * expected) << base << "^" << n;
    }
  }
}

TEST(Powers, OfSmallNumbersAreExact) {
  const Powers powers(0.5);
  for (int n = 0; n < 1000; ++n) EXPECT_EQ(powers(n), std::ldexp(1, -n));
}

TEST(Powers, OfOneStayAndOfZeroEnd) {
  const Powers one(1);
  const Powers zero(0);
  for (const int64_t n :
       {int64_t{0}, int64_t{1}, int64_t{256}, int64_t{65536}, (int64_t{1} << 32) - 1}) {
    EXPECT_EQ(one(n), 1);
    EXPECT_EQ(zero(n), n == 0 ? 1 : 0);
  }
}

}  // namespace keras_sparse::powers_test
