#include "ops/core/record/initializer.h"

#include <algorithm>
#include <cmath>

#include "ops/core/math/philox.h"
#include "tests/ops/core/support/testing.h"

namespace keras_sparse::initializer_test {

std::unique_ptr<Initializer> Make(const InitializerOptions& options) {
  std::unique_ptr<Initializer> initializer;
  EXPECT_TRUE(IsOk(Initializer::Create(options, &initializer)));
  return initializer;
}

std::unique_ptr<Initializer> Make(const std::string& kind, float a, float b, int64_t seed = 7) {
  return Make({kind, a, b, seed});
}

std::vector<float> Row(const Initializer& initializer, int64_t key, int64_t dim) {
  std::vector<float> row(static_cast<size_t>(dim));
  initializer.Fill(key, dim, row.data());
  return row;
}

std::vector<float> Draw(const Initializer& initializer, int64_t num_keys, int64_t dim) {
  std::vector<float> values;
  for (int64_t key = 0; key < num_keys; ++key) {
    const std::vector<float> row = Row(initializer, key, dim);
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

// The mean of f over all values.
template <typename F>
double Mean(const std::vector<float>& values, F f) {
  double total = 0;
  for (const float value : values) total += f(static_cast<double>(value));
  return total / static_cast<double>(values.size());
}

TEST(Initializer, ConstantFillsARowWithItsValue) {
  EXPECT_EQ(Row(*Make("constant", 0.25f, 0), 3, 5), std::vector<float>(5, 0.25f));
}

TEST(Initializer, UniformHasTheMomentsOfItsRange) {
  const std::vector<float> values = Draw(*Make("uniform", -1, 3), 20000, 10);
  EXPECT_NEAR(Mean(values, [](double x) { return x; }), 1, 0.015);
  EXPECT_NEAR(Mean(values, [](double x) { return (x - 1) * (x - 1); }), 16.0 / 12, 0.015);
  for (int part = 0; part < 16; ++part) {
    const double low = -1 + part * 0.25;
    EXPECT_NEAR(Mean(values, [=](double x) { return x >= low && x < low + 0.25; }), 1.0 / 16,
                0.003);
  }
}

TEST(Initializer, UniformStaysBelowMaxval) {
  // Rounding would reach 1001 for one word in 2^15.
  const std::vector<float> values = Draw(*Make("uniform", 1000, 1001), 50000, 8);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 1000);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 1001);
  EXPECT_EQ(Row(*Make("uniform", 2, 2), 5, 3), (std::vector<float>{2, 2, 2}));
}

TEST(Initializer, NormalHasTheMomentsAndTailsOfItsDistribution) {
  const std::vector<float> values = Draw(*Make("normal", 2, 0.5f), 20000, 20);
  const auto standard = [](double x) { return (x - 2) / 0.5; };
  EXPECT_NEAR(Mean(values, standard), 0, 0.008);
  EXPECT_NEAR(Mean(values, [&](double x) { return std::pow(standard(x), 2); }), 1, 0.012);
  EXPECT_NEAR(Mean(values, [&](double x) { return std::pow(standard(x), 3); }), 0, 0.03);
  EXPECT_NEAR(Mean(values, [&](double x) { return std::pow(standard(x), 4); }), 3, 0.1);
  EXPECT_NEAR(Mean(values, [&](double x) { return std::abs(standard(x)) < 1; }), 0.6827, 0.003);
  EXPECT_NEAR(Mean(values, [&](double x) { return standard(x) > 3; }), 0.00135, 0.0003);
  EXPECT_NEAR(Mean(values, [&](double x) { return standard(x) < -3; }), 0.00135, 0.0003);
}

TEST(Initializer, TruncatedNormalIsCutAtTwoDeviations) {
  const std::vector<float> values = Draw(*Make("truncated_normal", 1, 0.1f), 20000, 20);
  const auto standard = [](double x) { return (x - 1) / 0.1; };
  EXPECT_LE(Mean(values, [&](double x) { return std::abs(standard(x)) > 2.00001; }), 0);
  EXPECT_NEAR(Mean(values, standard), 0, 0.008);
  // 1 - 2 * 2 * pdf(2) / 0.9545
  EXPECT_NEAR(Mean(values, [&](double x) { return std::pow(standard(x), 2); }), 0.7737, 0.01);
  EXPECT_NEAR(Mean(values, [&](double x) { return std::abs(standard(x)) < 1; }), 0.7152, 0.003);
}

TEST(Initializer, ElementJIsMadeFromWordJOfThePhiloxStreamOfItsKey) {
  const int64_t seed = (int64_t{5} << 32) + 9;
  const int64_t key = -3;
  const std::vector<float> row = Row(*Make("uniform", 0, 1, seed), key, 7);
  for (uint32_t j = 0; j < 7; ++j) {
    const auto [words] = Philox({j / 4, 0, 0xfffffffdu, 0xffffffffu}, {9, 5});
    EXPECT_EQ(row[j], static_cast<float>(words[j % 4] >> 8) / 16777216.0f);
  }
}

TEST(Initializer, ARowDependsOnSeedAndKeyAlone) {
  for (const char* kind : {"uniform", "normal", "truncated_normal"}) {
    const auto initializer = Make(kind, 0, 1);
    const std::vector<float> wide = Row(*initializer, 11, 33);
    (void)Row(*initializer, 12, 33);
    EXPECT_EQ(Row(*Make(kind, 0, 1), 11, 33), wide);
    const std::vector<float> narrow = Row(*initializer, 11, 5);
    EXPECT_EQ(narrow, std::vector<float>(wide.begin(), wide.begin() + 5));
  }
}

TEST(Initializer, EveryBitOfSeedAndKeyMatters) {
  const std::vector<float> row = Row(*Make("uniform", 0, 1, 0), 0, 4);
  for (int bit = 0; bit < 64; ++bit) {
    const auto value = static_cast<int64_t>(uint64_t{1} << bit);
    EXPECT_NE(Row(*Make("uniform", 0, 1, value), 0, 4), row);
    EXPECT_NE(Row(*Make("uniform", 0, 1, 0), value, 4), row);
    EXPECT_NE(Row(*Make("uniform", 0, 1, 0), value, 4), Row(*Make("uniform", 0, 1, value), 0, 4));
  }
}

TEST(Initializer, RowsOfNeighbouringKeysAndSeedsAreNotCorrelated) {
  const auto a = Make("normal", 0, 1, 1);
  const auto b = Make("normal", 0, 1, 2);
  double keys = 0;
  double seeds = 0;
  double elements = 0;
  const int64_t dim = 100000;
  const std::vector<float> row = Row(*a, 0, dim);
  const std::vector<float> next_key = Row(*a, 1, dim);
  const std::vector<float> next_seed = Row(*b, 0, dim);
  for (size_t i = 0; i < row.size(); ++i) {
    keys += double{row[i]} * next_key[i];
    seeds += double{row[i]} * next_seed[i];
    elements += double{row[i]} * row[(i + 1) % row.size()];
  }
  EXPECT_NEAR(keys / dim, 0, 0.015);
  EXPECT_NEAR(seeds / dim, 0, 0.015);
  EXPECT_NEAR(elements / dim, 0, 0.015);
}

// Each kind there is.
const std::vector<InitializerOptions>& Kinds() {
  static const std::vector<InitializerOptions> kinds = {{"constant", 0.25f, 0, 7},
                                                        {"uniform", -1, 3, 7},
                                                        {"normal", 2, 0.5f, 7},
                                                        {"truncated_normal", 1, 0.1f, 7}};
  return kinds;
}

// What a part that begins at a column has of the row of each of these keys of its own.
std::vector<float> RowsOfPart(InitializerOptions options, int64_t first_column, int64_t dim,
                              const std::vector<int64_t>& keys) {
  options.first_column = first_column;
  const auto part = Make(options);
  std::vector<float> rows;
  for (const int64_t key : keys) {
    const std::vector<float> row = Row(*part, key, dim);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

TEST(Initializer, APartHasTheColumnsOfTheWholeRow) {
  for (const InitializerOptions& options : Kinds()) {
    const std::vector<float> whole = Row(*Make(options), -3, 23);
    for (int64_t first = 0; first < 23; ++first) {
      for (int64_t end = first + 1; end <= 23; ++end) {
        EXPECT_EQ(RowsOfPart(options, first, end - first, {-3}),
                  std::vector<float>(whole.begin() + first, whole.begin() + end))
            << options.kind << ", columns " << first << " to " << end;
      }
    }
  }
}

TEST(Initializer, APartWritesItsColumnsAlone) {
  for (InitializerOptions options : Kinds()) {
    for (options.first_column = 0; options.first_column < 8; ++options.first_column) {
      for (int64_t dim = 0; dim < 8; ++dim) {
        std::vector<float> row(9, -77.0f);
        Make(options)->Fill(5, dim, row.data());
        EXPECT_EQ(std::count(row.begin(), row.end(), -77.0f), 9 - dim);
        EXPECT_EQ(std::count(row.begin() + dim, row.end(), -77.0f), 9 - dim);
      }
    }
  }
}

TEST(Initializer, AKeyOfAPartStandsForAnotherKeyOfTheWholeTable) {
  for (InitializerOptions options : Kinds()) {
    const auto whole = Make(options);
    for (const int64_t stride : {1, 2, 7}) {
      for (const int64_t offset : {-5, 0, 3}) {
        options.key_stride = stride;
        options.key_offset = offset;
        const auto part = Make(options);
        for (const int64_t key : {-4, -1, 0, 1, 1000}) {
          EXPECT_EQ(Row(*part, key, 9), Row(*whole, key * stride + offset, 9));
        }
      }
    }
  }
}

TEST(Initializer, AKeyOfAPartMayBeAnyKey) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const auto whole = Make("uniform", 0, 1);
  // kMax * 3 + 2 is 2^63 - 1 modulo 2^64, and kMin * 3 + 2 is -2^63 + 2.
  const auto part = Make({"uniform", 0, 1, 7, 0, 3, 2});
  EXPECT_EQ(Row(*part, kMax, 5), Row(*whole, kMax, 5));
  EXPECT_EQ(Row(*part, kMin, 5), Row(*whole, kMin + 2, 5));
}

TEST(Initializer, APartMayBeginFarToTheRight) {
  const int64_t first = (int64_t{1} << 32) - 2;
  const std::vector<float> row = Row(*Make({"uniform", 0, 1, 7, first}), 3, 4);
  const auto [words] = Philox({(uint32_t{1} << 30) - 1, 0, 3, 0}, {7, 0});
  const auto [next] = Philox({uint32_t{1} << 30, 0, 3, 0}, {7, 0});
  const std::vector<uint32_t> expected = {words[2], words[3], next[0], next[1]};
  for (size_t j = 0; j < 4; ++j) {
    EXPECT_EQ(row[j], static_cast<float>(expected[j] >> 8) / 16777216.0f);
  }
}

TEST(Initializer, RefusesAPartThatNoTableHas) {
  std::unique_ptr<Initializer> initializer;
  for (const int64_t first : {int64_t{-1}, int64_t{1} << 32}) {
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "Received: first_column=" + std::to_string(first),
                          Initializer::Create({"uniform", 0, 1, 7, first}, &initializer)));
  }
  for (const int64_t stride : {0, -1}) {
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                          "Received: key_stride=" + std::to_string(stride),
                          Initializer::Create({"uniform", 0, 1, 7, 0, stride}, &initializer)));
  }
}

TEST(Initializer, RefusesAnUnknownKindByNamingTheKnownOnes) {
  std::unique_ptr<Initializer> initializer;
  const Status status = Initializer::Create({"orthogonal", 0, 1}, &initializer);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "'truncated_normal'", status));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "initializer='orthogonal'", status));
}

}  // namespace keras_sparse::initializer_test
