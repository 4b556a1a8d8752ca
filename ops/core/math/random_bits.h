// RandomBits: the random numbers of one record in one step, for CPU loops and GPU kernels alike.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_RANDOM_BITS_H_
#define KERAS_SPARSE_OPS_CORE_MATH_RANDOM_BITS_H_

#include <cstdint>

#include "ops/core/base/hash.h"
#include "ops/core/base/host_device.h"

namespace keras_sparse {

// A 64-bit number of a record and a step, expanded to one number per element by the multiplications
// and shifts of `lowbias32` (Wellons, "Prospecting for Hash Functions", public domain). No state:
// the result depends on nothing but the arguments.
struct RandomBits {
  uint32_t start;
  uint32_t mask;

  //   key   of the row in the whole table
  //   step  number of finished steps of the table's rule
  KERAS_SPARSE_HOST_DEVICE static RandomBits Of(uint64_t seed, uint64_t key, uint64_t step) {
    constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
    const uint64_t of_step = HashKey(static_cast<int64_t>(seed + (step + 1) * kGolden));
    const uint64_t bits = HashKey(static_cast<int64_t>(of_step ^ (key * kGolden)));
    return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
  }

  // Returns a number below 2^16 for an element of the record.
  KERAS_SPARSE_HOST_DEVICE uint32_t At(uint32_t element) const {
    const uint32_t word = Word(element / kBlock * kLanes + element % kLanes);
    return element % kBlock < kLanes ? word & 0xffff : word >> 16;
  }

  // A word is for two elements of a block, kLanes apart, so that a vector of words is for two
  // vectors of elements: word i of block b is for the elements b * kBlock + i and
  // b * kBlock + kLanes + i.
  static constexpr uint32_t kLanes = 8;
  static constexpr uint32_t kBlock = 2 * kLanes;

  //   Number  uint32_t, or a vector of them
  template <typename Number>
  KERAS_SPARSE_HOST_DEVICE Number Word(Number i) const {
    Number x = start + i * 0x9E3779B9u;
    x ^= x >> 16;
    x *= 0x21F0AAADu;
    x ^= (x >> 15) ^ mask;
    x *= 0x735A2D97u;
    return x ^ (x >> 15);
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_RANDOM_BITS_H_
