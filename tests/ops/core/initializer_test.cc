#include "ops/core/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/philox.h"
#include "tests/ops/core/testing.h"

namespace keras_sparse {
namespace {

std::unique_ptr<Initializer> Make(const std::string& kind, float a, float b, int64_t seed = 7) {
  std::unique_ptr<Initializer> initializer;
  EXPECT_TRUE(IsOk(Initializer::Create(kind, a, b, seed, &initializer)));
  return initializer;
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
    const auto words = Philox({j / 4, 0, 0xfffffffdu, 0xffffffffu}, {9, 5});
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

TEST(Initializer, RefusesAnUnknownKindByNamingTheKnownOnes) {
  std::unique_ptr<Initializer> initializer;
  const Status status = Initializer::Create("orthogonal", 0, 1, 0, &initializer);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "'truncated_normal'", status));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, "initializer='orthogonal'", status));
}

}  // namespace
}  // namespace keras_sparse
