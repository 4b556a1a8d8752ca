// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011): a pure function from (key, counter) to four random words.
#ifndef KERAS_SPARSE_OPS_CORE_MATH_PHILOX_H_
#define KERAS_SPARSE_OPS_CORE_MATH_PHILOX_H_

#include <cstdint>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

// Not std::array, because a GPU cannot call its functions.
struct PhiloxWords {
  uint32_t words[4];
};
struct PhiloxKey {
  uint32_t words[2];
};

KERAS_SPARSE_HOST_DEVICE inline PhiloxWords Philox(PhiloxWords counter, PhiloxKey key) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u;
  constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u;
  constexpr uint32_t kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kMultiplier0) * counter.words[0];
    const uint64_t product1 = static_cast<uint64_t>(kMultiplier1) * counter.words[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter.words[1] ^ key.words[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter.words[3] ^ key.words[1],
               static_cast<uint32_t>(product0)};
    key.words[0] += kWeyl0;
    key.words[1] += kWeyl1;
  }
  return counter;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_MATH_PHILOX_H_
