// Inputs changed at random, for what reads them.
#ifndef KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_FUZZING_H_
#define KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_FUZZING_H_

#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <iterator>
#include <utility>

#include "tests/ops/core/support/testing.h"

namespace keras_sparse {

inline double NumberOf(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atof(text);
}

// The arrays of an input, as bytes.
using Pieces = std::vector<std::string>;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// As many whole values as there are.
template <typename T>
std::vector<T> Values(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Changes an input as files and messages go wrong: bits, numbers at a limit, parts that are lost,
// doubled, or those of another input.
class Mutator {
 public:
  Mutator(uint64_t seed, std::vector<Pieces> inputs) : random_(seed), inputs_(std::move(inputs)) {}

  Pieces Next() {
    Pieces pieces = inputs_[Below(inputs_.size())];
    for (size_t left = 1 + Below(4); left > 0; --left) Change(&pieces[Below(pieces.size())]);
    return pieces;
  }

 private:
  size_t Below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random_() % n); }

  void Change(std::string* bytes) {
    switch (Below(6)) {
      case 0:
        if (!bytes->empty()) (*bytes)[Below(bytes->size())] ^= static_cast<char>(1 << Below(8));
        return;
      case 1:
        return PutNumber<int32_t>(bytes);
      case 2:
        return PutNumber<int64_t>(bytes);
      case 3:
        bytes->resize(Below(bytes->size() + 1));
        return;
      case 4: {
        const size_t from = Below(bytes->size());
        bytes->insert(Below(bytes->size() + 1), bytes->substr(from, 4 * (1 + Below(8))));
        return;
      }
      default: {
        const Pieces& other = inputs_[Below(inputs_.size())];
        const std::string& piece = other[Below(other.size())];
        const size_t from = Below(piece.size()) / 4 * 4;
        const size_t at = Below(bytes->size()) / 4 * 4;
        const size_t n = 4 * (1 + Below(16));
        bytes->replace(at, n, piece.substr(from, n));
      }
    }
  }

  template <typename T>
  void PutNumber(std::string* bytes) {
    if (bytes->size() < sizeof(T)) return;
    using Limits = std::numeric_limits<T>;
    const T numbers[] = {0,
                         1,
                         2,
                         3,
                         -1,
                         Limits::min(),
                         Limits::max(),
                         Limits::max() / 2,
                         static_cast<T>(bytes->size() / 4),
                         static_cast<T>(random_() % 100)};
    const T number = numbers[Below(std::size(numbers))];
    std::memcpy(&(*bytes)[Below(bytes->size() / sizeof(T)) * sizeof(T)], &number, sizeof(T));
  }

  std::mt19937_64 random_;
  const std::vector<Pieces> inputs_;
};

// One that reads inputs. Those it begins with are good ones.
struct Parser {
  std::vector<Pieces> inputs;
  std::function<Status(const Pieces& pieces)> parse;
};

// Each input is taken or refused with a message, whatever it holds; sanitizers see what else
// happens. 500 inputs, the same each time, or as many as KERAS_SPARSE_FUZZ_SECONDS last: `make
// fuzz` takes a minute a parser, from another KERAS_SPARSE_FUZZ_SEED each time.
inline void TakesOrRefuses(const Parser& parser) {
  using Clock = std::chrono::steady_clock;
  for (const Pieces& pieces : parser.inputs) ASSERT_TRUE(IsOk(parser.parse(pieces)));
  const auto seed = static_cast<uint64_t>(NumberOf("KERAS_SPARSE_FUZZ_SEED", 1));
  const std::chrono::duration<double> seconds(NumberOf("KERAS_SPARSE_FUZZ_SECONDS", 0));
  Mutator mutator(seed, parser.inputs);
  int64_t num_inputs = 0;
  int64_t num_taken = 0;
  for (const auto end = Clock::now() + seconds; num_inputs < 500 || Clock::now() < end;
       ++num_inputs) {
    const Status status = parser.parse(mutator.Next());
    num_taken += status.ok() ? 1 : 0;
    ASSERT_EQ(status.ok(), status.message().empty());
    ASSERT_FALSE(::testing::Test::HasFailure()) << "input " << num_inputs << " of seed " << seed;
  }
  EXPECT_GT(num_taken, 0);
  std::cout << num_taken << " of " << num_inputs << " taken, seed " << seed << "\n";
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_TESTS_OPS_CORE_SUPPORT_FUZZING_H_
