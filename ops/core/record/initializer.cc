#include "ops/core/record/initializer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/core/math/philox.h"
#include "ops/core/math/vector_functions.h"

namespace keras_sparse {
namespace {

// In [0, 1): the 24 high bits, as many as a float holds exactly.
inline float ToUnit(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// In (0, 1): the middle of each of 2^32 intervals, so that no tail is infinite.
inline double ToOpenUnit(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

template <size_t kSize>
double Polynomial(const double (&coefficients)[kSize], double x) {
  double value = 0;
  for (size_t i = kSize; i-- > 0;) value = value * x + coefficients[i];
  return value;
}

// The standard normal quantile: algorithm AS 241, routine PPND7 (Wichura, Applied Statistics 37,
// 1988), about 7 digits.
double NormalQuantile(double p) {
  constexpr double kA[] = {3.3871327179, 50.434271938, 159.29113202, 59.109374720};
  constexpr double kB[] = {1.0, 17.895169469, 78.757757664, 67.187563600};
  constexpr double kC[] = {1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103};
  constexpr double kD[] = {1.0, 0.73700164250, 0.12021132975};
  constexpr double kE[] = {6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997};
  constexpr double kF[] = {1.0, 0.24197894225, 0.012258202635};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kA, r) / Polynomial(kB, r);
  }
  const double r = std::sqrt(-Log(q < 0 ? p : 1 - p));
  const double tail = r <= 5 ? Polynomial(kC, r - 1.6) / Polynomial(kD, r - 1.6)
                             : Polynomial(kE, r - 5) / Polynomial(kF, r - 5);
  return q < 0 ? -tail : tail;
}

class Constant : public Initializer {
 public:
  explicit Constant(float value) : value_(value) {}
  void Fill(int64_t /*key*/, int64_t dim, float* row) const override {
    std::fill_n(row, dim, value_);
  }

 private:
  float value_;
};

// The low word, then the high one.
using Words = std::array<uint32_t, 2>;

Words Split(uint64_t bits) {
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

// Feeds `Map`, a function from a random word to an element, with the words of a key.
template <typename Map>
class Random : public Initializer {
 public:
  Random(const InitializerOptions& options, Map map)
      : seed_(Split(static_cast<uint64_t>(options.seed))),
        first_column_(options.first_column),
        key_stride_(static_cast<uint64_t>(options.key_stride)),
        key_offset_(static_cast<uint64_t>(options.key_offset)),
        map_(std::move(map)) {}

  void Fill(int64_t key, int64_t dim, float* row) const override {
    const Words words = Split(static_cast<uint64_t>(key) * key_stride_ + key_offset_);
    int64_t block = first_column_ / 4;
    int64_t done = 0;
    if (first_column_ % 4 != 0) {  // the part begins inside of a block
      done = std::min(4 - first_column_ % 4, dim);
      FillFromBlock(words, block++, first_column_ % 4, done, row);
    }
    for (; done < dim; done += 4) {
      FillFromBlock(words, block++, 0, std::min<int64_t>(4, dim - done), row + done);
    }
  }

 private:
  // Makes n elements from the words of one block, from word `first` on.
  void FillFromBlock(const Words& key, int64_t block, int64_t first, int64_t n,
                     float* elements) const {
    const auto random = Philox({static_cast<uint32_t>(block), 0, key[0], key[1]}, seed_);
    for (int64_t i = 0; i < n; ++i) elements[i] = map_(random[static_cast<size_t>(first + i)]);
  }

  Words seed_;
  int64_t first_column_;
  uint64_t key_stride_;
  uint64_t key_offset_;
  Map map_;
};

template <typename Map>
std::unique_ptr<Initializer> MakeRandom(const InitializerOptions& options, Map map) {
  return std::make_unique<Random<Map>>(options, std::move(map));
}

Status CheckPart(const InitializerOptions& options) {
  constexpr int64_t kMaxFirstColumn = std::numeric_limits<uint32_t>::max();
  if (options.first_column < 0 || options.first_column > kMaxFirstColumn) {
    return InvalidArgument("`first_column` must be in [0, " + std::to_string(kMaxFirstColumn) +
                           "]. Received: first_column=" + std::to_string(options.first_column));
  }
  if (options.key_stride < 1) {
    return InvalidArgument("`key_stride` must be above 0. Received: key_stride=" +
                           std::to_string(options.key_stride));
  }
  return Status::Ok();
}

}  // namespace

Status Initializer::Create(const InitializerOptions& options,
                           std::unique_ptr<Initializer>* initializer) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckPart(options));
  const std::string& kind = options.kind;
  const float a = options.a;
  const float b = options.b;
  if (kind == "constant") {
    *initializer = std::make_unique<Constant>(a);
  } else if (kind == "uniform") {
    // Rounding may reach b, which is not in the range.
    *initializer =
        MakeRandom(options, [a, range = b - a, last = std::nextafter(b, a)](uint32_t word) {
          const float value = a + range * ToUnit(word);
          return range > 0 ? std::min(value, last) : std::max(value, last);
        });
  } else if (kind == "normal") {
    *initializer = MakeRandom(options, [a, b](uint32_t word) {
      return static_cast<float>(a + b * NormalQuantile(ToOpenUnit(word)));
    });
  } else if (kind == "truncated_normal") {
    // Two standard deviations either side hold this part of the distribution.
    constexpr double kBelow = 0.022750131948179195;
    *initializer = MakeRandom(options, [a, b](uint32_t word) {
      const double p = kBelow + (1 - 2 * kBelow) * ToOpenUnit(word);
      return static_cast<float>(a + b * NormalQuantile(p));
    });
  } else {
    return InvalidArgument(
        "`initializer` must be one of ('constant', 'uniform', 'normal', 'truncated_normal'). "
        "Received: initializer='" +
        kind + "'");
  }
  return Status::Ok();
}

}  // namespace keras_sparse
