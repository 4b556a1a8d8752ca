#include "ops/core/optimizer/prefix_sums.h"

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::prefix_sums_test {

TEST(PrefixSums, SumUpAnyRunOfSteps) {
  PrefixSums sums;
  for (const double number : {1, 10, 100, 1000}) sums.Append(number);
  EXPECT_EQ(sums.Between(0, 4), 1111);
  EXPECT_EQ(sums.Between(1, 3), 110);
  EXPECT_EQ(sums.Between(3, 4), 1000);
}

TEST(PrefixSums, OfNoStepsAreZero) {
  PrefixSums sums;
  EXPECT_EQ(sums.Between(0, 0), 0);
  sums.Append(0.1);
  EXPECT_EQ(sums.Between(1, 1), 0);
}

TEST(PrefixSums, ForgetTheStepsSoFar) {
  PrefixSums sums;
  for (const double number : {1, 10, 100}) sums.Append(number);
  sums.Forget();
  EXPECT_EQ(sums.Between(3, 3), 0);
  for (const double number : {1000, 10000}) sums.Append(number);
  EXPECT_EQ(sums.Between(3, 5), 11000);
  EXPECT_EQ(sums.Between(4, 5), 10000);
  sums.Forget();
  sums.Forget();
  sums.Append(7);
  EXPECT_EQ(sums.Between(5, 6), 7);
}

TEST(PrefixSums, KeepTheirDigitsOverAMillionSteps) {
  PrefixSums sums;
  for (int64_t step = 0; step < 1000000; ++step) sums.Append(0.001);
  EXPECT_NEAR(sums.Between(999990, 1000000), 0.01, 1e-12);
}

}  // namespace keras_sparse::prefix_sums_test
