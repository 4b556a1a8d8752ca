// BagsHash: a hash of a lookup's ids, bags and weights, the same in host and GPU memory.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_BAGS_HASH_H_
#define KERAS_SPARSE_OPS_CORE_IDS_BAGS_HASH_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/core/base/host_device.h"
#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/ids/bags.h"

namespace keras_sparse {

// 128 bits of a list: two sums over a value of each number and its position, so that lanes may
// divide the work in any way. An empty list hashes to zeros.
struct ListHash {
  unsigned long long low = 0;
  unsigned long long high = 0;

  KERAS_SPARSE_HOST_DEVICE void Add(uint64_t number, int64_t place) {
    // The number is mixed before its position is added, so that no other number and position
    // systematically have the same sum.
    const uint64_t mixed =
        Mix(Mix(number) + 0x9e3779b97f4a7c15ULL * static_cast<uint64_t>(place + 1));
    low += mixed;
    high += mixed * (mixed >> 32 | mixed << 32);  // neither sum can be derived from the other
  }
  KERAS_SPARSE_HOST_DEVICE void Add(float number, int64_t place) {
    uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    Add(uint64_t{bits}, place);
  }
  KERAS_SPARSE_HOST_DEVICE void Add(int64_t number, int64_t place) {
    Add(static_cast<uint64_t>(number), place);
  }

 private:
  // The finalizer of MurmurHash3 (Appleby, public domain): each bit affects all others.
  KERAS_SPARSE_HOST_DEVICE static uint64_t Mix(uint64_t bits) {
    bits ^= bits >> 33;
    bits *= 0xff51afd7ed558ccdULL;
    bits ^= bits >> 33;
    bits *= 0xc4ceb9fe1a85ec53ULL;
    return bits ^ bits >> 33;
  }
};

struct BagsHash {
  ListHash ids;
  ListHash row_splits;  // of pooled bags
  ListHash weights;
};

// Ids and their bags.
struct BagsToHash {
  const int64_t* ids;  // (bags.num_ids)
  Bags bags;
};

BagsHash HashOf(const BagsToHash& lists);

namespace cuda_impl {

// Hashes lists in the GPU's memory; waits for the GPU.
Status HashOf(const std::vector<BagsToHash>& lists, Device* device, std::vector<BagsHash>* hashes);

}  // namespace cuda_impl
}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_BAGS_HASH_H_
