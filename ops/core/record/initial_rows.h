// InitialRows: the elements of initial rows, for CPU and GPU alike, as plain numbers that a kernel
// takes by value. Initializer creates them.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_INITIAL_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_INITIAL_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "ops/core/base/host_device.h"
#include "ops/core/math/philox.h"
#include "ops/core/math/vector_functions.h"

namespace keras_sparse {

// Returns a number in [0, 1) from the 24 high bits, as many as a float holds exactly.
KERAS_SPARSE_HOST_DEVICE inline float ToUnit(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

// Returns a number in (0, 1): the middle of one of 2^32 intervals, so that no tail is infinite.
KERAS_SPARSE_HOST_DEVICE inline double ToOpenUnit(uint32_t word) {
  return (static_cast<double>(word) + 0.5) * 0x1p-32;
}

template <size_t kSize>
KERAS_SPARSE_HOST_DEVICE inline double Polynomial(const double (&coefficients)[kSize], double x) {
  double value = 0;
  for (size_t i = kSize; i-- > 0;) value = value * x + coefficients[i];
  return value;
}

// The standard normal quantile: algorithm AS 241, routine PPND7 (Wichura, Applied Statistics 37,
// 1988), about 7 digits.
#ifndef __CUDACC__
__attribute__((noinline))  // four inlined copies are slower on a CPU than four calls
#endif
KERAS_SPARSE_HOST_DEVICE inline double NormalQuantile(double p) {
  constexpr double kA[] = {3.3871327179, 50.434271938, 159.29113202, 59.109374720};
  constexpr double kB[] = {1.0, 17.895169469, 78.757757664, 67.187563600};
  constexpr double kC[] = {1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103};
  constexpr double kD[] = {1.0, 0.73700164250, 0.12021132975};
  constexpr double kE[] = {6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997};
  constexpr double kF[] = {1.0, 0.24197894225, 0.012258202635};
  const double q = p - 0.5;
  if (Abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kA, r) / Polynomial(kB, r);
  }
  const double r = Sqrt(-Log(q < 0 ? p : 1 - p));
  const double tail = r <= 5 ? Polynomial(kC, r - 1.6) / Polynomial(kD, r - 1.6)
                             : Polynomial(kE, r - 5) / Polynomial(kF, r - 5);
  return q < 0 ? -tail : tail;
}

// Functions from a random word to an element.
struct UniformElement {
  float low;
  float range;
  float last;  // the last float of the range: rounding may reach the end, which is excluded

  KERAS_SPARSE_HOST_DEVICE float operator()(uint32_t word) const {
    const float value = low + range * ToUnit(word);
    return range > 0 ? Min(value, last) : Max(value, last);
  }
};

struct NormalElement {
  float mean;
  float stddev;

  KERAS_SPARSE_HOST_DEVICE float operator()(uint32_t word) const {
    return static_cast<float>(mean + stddev * NormalQuantile(ToOpenUnit(word)));
  }
};

struct TruncatedNormalElement {
  float mean;
  float stddev;

  KERAS_SPARSE_HOST_DEVICE float operator()(uint32_t word) const {
    // The part of the distribution more than two standard deviations below the mean.
    constexpr double kBelow = 0.022750131948179195;
    const double p = kBelow + (1 - 2 * kBelow) * ToOpenUnit(word);
    return static_cast<float>(mean + stddev * NormalQuantile(p));
  }
};

// The part of a whole table that a table holds: see InitializerOptions.
struct InitialPart {
  PhiloxKey seed = {};
  uint64_t key_stride = 1;
  uint64_t key_offset = 0;
  int64_t first_column = 0;
};

template <typename Element>
struct RandomRows {
  InitialPart part;
  Element element;

  // Computes columns [begin, begin + n) of the row of `key`.
  KERAS_SPARSE_HOST_DEVICE void Fill(int64_t key, int64_t begin, int64_t n, float* columns) const {
    const uint64_t bits = static_cast<uint64_t>(key) * part.key_stride + part.key_offset;
    int64_t block = (part.first_column + begin) / 4;
    const int64_t within = (part.first_column + begin) % 4;
    int64_t done = 0;
    if (within != 0) {  // the columns begin inside a block
      done = n < 4 - within ? n : 4 - within;
      FillFromBlock(bits, block++, within, done, columns);
    }
    for (; done < n; done += 4) {
      FillFromBlock(bits, block++, 0, n - done < 4 ? n - done : 4, columns + done);
    }
  }

 private:
  // Computes n elements from the four words of a block, starting with word `first`.
  KERAS_SPARSE_HOST_DEVICE void FillFromBlock(uint64_t key, int64_t block, int64_t first, int64_t n,
                                              float* elements) const {
    const PhiloxWords random = Philox({{static_cast<uint32_t>(block), 0, static_cast<uint32_t>(key),
                                        static_cast<uint32_t>(key >> 32)}},
                                      part.seed);
    for (int64_t i = 0; i < n; ++i) elements[i] = element(random.words[first + i]);
  }
};

enum class InitialKind { kConstant, kUniform, kNormal, kTruncatedNormal };

// The initial rows of a table, of any kind.
struct InitialRows {
  InitialKind kind = InitialKind::kConstant;
  InitialPart part;
  float a = 0;
  float b = 0;
  float last = 0;  // of kUniform: the last float before b, coming from a

  // Computes columns [begin, begin + n) of the row of `key`.
  KERAS_SPARSE_HOST_DEVICE void Fill(int64_t key, int64_t begin, int64_t n, float* columns) const {
    switch (kind) {
      case InitialKind::kConstant:
        for (int64_t i = 0; i < n; ++i) columns[i] = a;
        break;
      case InitialKind::kUniform:
        RandomRows<UniformElement>{part, {a, b - a, last}}.Fill(key, begin, n, columns);
        break;
      case InitialKind::kNormal:
        RandomRows<NormalElement>{part, {a, b}}.Fill(key, begin, n, columns);
        break;
      case InitialKind::kTruncatedNormal:
        RandomRows<TruncatedNormalElement>{part, {a, b}}.Fill(key, begin, n, columns);
        break;
    }
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_INITIAL_ROWS_H_
