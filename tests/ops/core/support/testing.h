// What the tests of the core share: GoogleTest and the headers of ids, rows, names and owners,
// which each of them takes from here; checks of a Status; seeded data.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TESTING_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TESTING_H_

#include <gtest/gtest.h>
#include <time.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/core/base/status.h"

namespace keras_sparse {

inline ::testing::AssertionResult IsOk(const Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.message();
}

// Whether a call failed with this code and a message that holds these words.
inline ::testing::AssertionResult FailsWith(StatusCode code, const std::string& words,
                                            const Status& status) {
  if (status.ok()) return ::testing::AssertionFailure() << "the call succeeded";
  if (status.code() == code && status.message().find(words) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "code " << static_cast<int>(status.code()) << ": " << status.message();
}

// What this thread has computed so far, whatever else the machine does.
inline double ThreadSeconds() {
  timespec now;
  EXPECT_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// For comparisons that tell NaNs and signs of zero apart too.
inline std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  if (!values.empty()) std::memcpy(bits.data(), values.data(), 4 * values.size());
  return bits;
}

// SplitMix64 (Vigna, public domain): seeded at no cost, for tests make many short sequences.
inline uint64_t NextRandom(uint64_t* state) {
  *state += 0x9E3779B97F4A7C15u;
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

inline std::vector<int64_t> Range(int64_t first, int64_t last) {
  std::vector<int64_t> numbers;
  for (int64_t number = first; number < last; ++number) numbers.push_back(number);
  return numbers;
}

// In [low, high], all about equally likely.
inline std::vector<int64_t> RandomIds(int64_t n, int64_t low, int64_t high, uint64_t seed) {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  std::vector<int64_t> ids(static_cast<size_t>(n));
  for (int64_t& id : ids) {
    const uint64_t draw = NextRandom(&seed);
    id = static_cast<int64_t>(static_cast<uint64_t>(low) + (range == 0 ? draw : draw % range));
  }
  return ids;
}

// In [-1, 1).
inline std::vector<float> RandomFloats(int64_t n, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) {
    value = static_cast<float>(static_cast<int64_t>(NextRandom(&seed)) >> 39) * 0x1p-24f;
  }
  return values;
}

// Rises from 0 to num_ids in num_bags steps; about one bag in five is empty.
inline std::vector<int64_t> RandomSplits(int64_t num_bags, int64_t max_hotness, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> splits = {0};
  for (int64_t b = 0; b < num_bags; ++b) {
    const auto draw = static_cast<int64_t>(random() >> 1);
    splits.push_back(splits.back() + (draw % 5 == 0 ? 0 : draw / 5 % max_hotness + 1));
  }
  return splits;
}

// The keys that are hardest to tell from "no key".
inline std::vector<int64_t> ExtremeKeys() {
  return {std::numeric_limits<int64_t>::min(), -1, 0, 1, std::numeric_limits<int64_t>::max()};
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_TESTING_H_
