#include "ops/core/math/random_bits.h"

#include <cmath>
#include <functional>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse::random_bits_test {

constexpr int64_t kNumbers = 1 << 18;
constexpr uint32_t kElementsPerSlot = 1 << 24;  // of Rounding::FirstElement

// A sequence of random numbers: one of their arguments counts, the others stay.
struct Sequence {
  std::string name;
  std::function<uint32_t(uint64_t i)> at;
};

std::vector<Sequence> Sequences() {
  std::vector<Sequence> all;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0xdeadbeefcafe}}) {
    const std::string name = ", seed " + std::to_string(seed);
    const auto record = RandomBits::Of(seed, 3, 7);
    all.push_back(
        {"elements" + name, [=](uint64_t i) { return record.At(static_cast<uint32_t>(i)); }});
    all.push_back({"elements of a slot" + name, [=](uint64_t i) {
                     return record.At(kElementsPerSlot + static_cast<uint32_t>(i));
                   }});
    all.push_back({"keys" + name, [=](uint64_t i) { return RandomBits::Of(seed, i, 7).At(0); }});
    all.push_back({"keys of a shard of eight" + name,
                   [=](uint64_t i) { return RandomBits::Of(seed, 8 * i + 5, 0).At(33); }});
    all.push_back(
        {"negative keys" + name, [=](uint64_t i) { return RandomBits::Of(seed, ~i, 7).At(8); }});
    all.push_back({"steps" + name, [=](uint64_t i) { return RandomBits::Of(seed, 3, i).At(0); }});
    // Slots of a column, as an update of a record asks for them.
    all.push_back({"slots" + name, [=](uint64_t i) {
                     return RandomBits::Of(seed, i / 3, 7)
                         .At(static_cast<uint32_t>(i % 3) * kElementsPerSlot);
                   }});
  }
  all.push_back({"seeds", [](uint64_t i) { return RandomBits::Of(i, 3, 7).At(0); }});
  return all;
}

// The chi-square statistic of 256 bins that are equally likely. Its mean is 255, and its standard
// deviation 22.6.
double ChiSquare(const std::function<uint32_t(uint64_t i)>& bin_of) {
  std::vector<int64_t> counts(256);
  for (uint64_t i = 0; i < kNumbers; ++i) ++counts.at(bin_of(i));
  constexpr double kExpected = kNumbers / 256.0;
  double sum = 0;
  for (const int64_t count : counts) {
    const double off = static_cast<double>(count) - kExpected;
    sum += off * off / kExpected;
  }
  return sum;
}

// Five standard deviations.
void ExpectUniform(double chi_square) {
  EXPECT_GT(chi_square, 255 - 5 * 22.6);
  EXPECT_LT(chi_square, 255 + 5 * 22.6);
}

TEST(RandomBits, AreUniform) {
  for (const Sequence& each : Sequences()) {
    SCOPED_TRACE(each.name);
    ExpectUniform(ChiSquare([&](uint64_t i) { return each.at(i) >> 8; }));
    ExpectUniform(ChiSquare([&](uint64_t i) { return each.at(i) & 0xff; }));
  }
}

TEST(RandomBits, AreIndependentOfTheirNeighbours) {
  for (const Sequence& each : Sequences()) {
    for (const uint64_t lag : {1, 2, 8, 16, 64}) {
      SCOPED_TRACE(each.name + ", " + std::to_string(lag) + " apart");
      ExpectUniform(ChiSquare([&](uint64_t i) {
        return (each.at(i) >> 12 << 4) | (each.at(i + lag) >> 12);  // their highest bits
      }));
      double covariance = 0;
      for (uint64_t i = 0; i < kNumbers; ++i) {
        covariance += (each.at(i) - 32767.5) * (each.at(i + lag) - 32767.5);
      }
      constexpr double kVariance = 65536.0 * 65536.0 / 12;
      EXPECT_LT(std::abs(covariance / kNumbers / kVariance), 5 / std::sqrt(kNumbers));
    }
  }
}

TEST(RandomBits, TakeAWordForTwoElementsOfABlock) {
  const auto bits = RandomBits::Of(5, 6, 7);
  for (const uint32_t block : {0u, 1u, 7u, kElementsPerSlot / 16, (1u << 28) - 1}) {
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t word = bits.Word(8 * block + i);
      EXPECT_EQ(bits.At(16 * block + i), word & 0xffff);
      EXPECT_EQ(bits.At(16 * block + 8 + i), word >> 16);
    }
  }
}

}  // namespace keras_sparse::random_bits_test
