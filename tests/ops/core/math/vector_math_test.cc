#include "ops/core/math/vector_math.h"

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::vector_math_test {

const std::vector<int64_t> kWidths = {1,  3,  4,  5,  7,  8,   9,   12,  16,
                                      20, 31, 33, 64, 65, 100, 127, 128, 1500};

TEST(SumRows, AddsEachColumnOfAnyWidth) {
  for (const int64_t dim : kWidths) {
    for (const bool weighted : {false, true}) {
      const int64_t n = 37;
      const std::vector<float> data = RandomFloats(n * dim, 1);
      const std::vector<float> weights = RandomFloats(n, 2);
      std::vector<const float*> rows;
      for (int64_t i = 0; i < n; ++i) rows.push_back(data.data() + i * dim);
      std::vector<float> sum(static_cast<size_t>(dim) + 1, 2.0f);
      SumRows(rows.data(), weighted ? weights.data() : nullptr, n, dim, {sum.data(), sum.data()});
      for (int64_t j = 0; j < dim; ++j) {
        double expected = 2;
        for (size_t i = 0; i < rows.size(); ++i) {
          expected += (weighted ? double{weights[i]} : 1) * rows[i][j];
        }
        ASSERT_NEAR(sum[static_cast<size_t>(j)], expected, 1e-5) << "dim " << dim;
      }
      EXPECT_EQ(sum.back(), 2.0f) << "wrote past the row, dim " << dim;
    }
  }
}

TEST(SumRows, GivesTheSameBitsHoweverASumIsCut) {
  for (const int64_t dim : kWidths) {
    const int64_t n = 70;
    const std::vector<float> data = RandomFloats(n * dim, 3);
    const std::vector<float> weights = RandomFloats(n, 4);
    std::vector<const float*> rows;
    for (int64_t i = 0; i < n; ++i) rows.push_back(data.data() + i * dim);
    for (const float* w : {static_cast<const float*>(nullptr), weights.data()}) {
      std::vector<float> whole(static_cast<size_t>(dim));
      std::vector<float> cut(static_cast<size_t>(dim));
      SumRows(rows.data(), w, n, dim, {whole.data(), whole.data()});
      for (const auto& [begin, end] : {std::pair{0, 1}, {1, 33}, {33, 33}, {33, 70}}) {
        SumRows(rows.data() + begin, w == nullptr ? w : w + begin, end - begin, dim,
                {cut.data(), cut.data()});
      }
      EXPECT_EQ(Bits(cut), Bits(whole)) << "dim " << dim;
    }
  }
}

// Past the caches or not, from zeros or from a sum that has begun.
TEST(SumRows, BeginsAndEndsAsItIsTold) {
  for (const int64_t dim : kWidths) {
    const int64_t n = 5;
    const std::vector<float> data = RandomFloats(n * dim, 7);
    const std::vector<float> begun = RandomFloats(dim, 8);
    std::vector<const float*> rows;
    for (int64_t i = 0; i < n; ++i) rows.push_back(data.data() + i * dim);
    for (const float* begin : {static_cast<const float*>(nullptr), begun.data()}) {
      std::vector<float> expected(static_cast<size_t>(dim));
      if (begin != nullptr) expected = begun;
      SumRows(rows.data(), nullptr, n, dim, {expected.data(), expected.data()});
      Scale(0.3f, dim, expected.data());
      for (const size_t offset : {0, 1, 4}) {  // from a place where any vector may stand
        std::vector<float> memory(static_cast<size_t>(dim) + 16, 2.0f);
        const auto address = reinterpret_cast<uintptr_t>(memory.data());
        float* end = memory.data() + (-address % 32) / sizeof(float) + offset;
        SumRows(rows.data(), nullptr, n, dim, {begin, end, 0.3f, CanStream(dim, end)});
        StreamingDone();
        EXPECT_EQ(Bits(std::vector<float>(end, end + dim)), Bits(expected)) << "dim " << dim;
        EXPECT_EQ(end[dim], 2.0f) << "wrote past the row, dim " << dim;
      }
    }
  }
}

TEST(CanStream, TakesWholeVectorsAtTheirAlignment) {
  alignas(32) float memory[16];
  for (const int64_t dim : {4, 8, 64}) EXPECT_TRUE(CanStream(dim, memory)) << dim;
  for (const int64_t dim : {1, 5, 9, 12, 20}) EXPECT_FALSE(CanStream(dim, memory)) << dim;
  EXPECT_TRUE(CanStream(4, memory + 4));
  EXPECT_FALSE(CanStream(4, memory + 2));
  EXPECT_FALSE(CanStream(8, memory + 4));
}

TEST(AddScaled, GivesTheBitsOfASumOfOneRow) {
  for (const int64_t dim : kWidths) {
    const std::vector<float> row = RandomFloats(dim, 9);
    const std::vector<float> begun = RandomFloats(dim, 10);
    const float* rows[] = {row.data()};
    for (const float weight : {1.0f, -0.7f}) {
      std::vector<float> expected = begun;
      SumRows(rows, &weight, 1, dim, {expected.data(), expected.data()});
      std::vector<float> sum = begun;
      sum.push_back(2);
      AddScaled(weight, row.data(), dim, sum.data());
      EXPECT_EQ(sum.back(), 2);  // and nothing behind it
      sum.pop_back();
      EXPECT_EQ(Bits(sum), Bits(expected));
    }
  }
}

}  // namespace keras_sparse::vector_math_test
