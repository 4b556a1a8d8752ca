#include "ops/core/math/dot.h"

#include <array>
#include <cmath>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::dot_test {

TEST(Dot, MultipliesRowsOfAnyWidth) {
  for (const int64_t dim : {1, 3, 4, 7, 8, 9, 16, 20, 31, 33, 64, 65, 127, 128, 1500}) {
    const std::vector<float> a = RandomFloats(dim, 5);
    const std::vector<float> b = RandomFloats(dim, 6);
    double expected = 0;
    for (size_t i = 0; i < a.size(); ++i) expected += double{a[i]} * b[i];
    EXPECT_NEAR(Dot(a.data(), b.data(), dim), expected, 1e-5 * std::sqrt(static_cast<double>(dim)));
  }
}

// As the lanes of a warp do it.
float DotOfWarp(const std::vector<float>& a, const std::vector<float>& b) {
  std::array<float, 32> lanes = {};
  for (size_t i = 0; i < a.size(); ++i) lanes[i % 32] += a[i] * b[i];
  for (size_t half = 16; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

TEST(Dot, AddsInTheOrderOfAWarp) {
  for (int64_t dim = 1; dim < 140; ++dim) {
    const std::vector<float> a = RandomFloats(dim, 5);
    const std::vector<float> b = RandomFloats(dim, 6);
    ASSERT_EQ(Dot(a.data(), b.data(), dim), DotOfWarp(a, b)) << "dim " << dim;
  }
}

}  // namespace keras_sparse::dot_test
