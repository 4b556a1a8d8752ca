// How kernels find keys in an HbmIndex. Included by .cu files.
#ifndef KERAS_SPARSE_OPS_CORE_INDEX_HBM_INDEX_FIND_H_
#define KERAS_SPARSE_OPS_CORE_INDEX_HBM_INDEX_FIND_H_

#include <cstdint>

#include "ops/core/device/device_code.h"
#include "ops/core/index/hbm_index.h"
#include "ops/core/index/hbm_row.h"

namespace keras_sparse {
namespace cuda_impl {

// The position of a key.
struct HbmSlot {
  HbmBucket* bucket;  // null if the key does not exist
  uint32_t number;
};

// For one lane.
//   mask_of(bucket)  returns its mask
template <typename MaskOf>
__device__ inline HbmSlot FindSlot(const HbmIndexView& view, int64_t key, const MaskOf& mask_of) {
  uint32_t at = view.HomeOf(key);
  // Ends after all buckets, because each may have overflowed once.
  for (uint32_t n = 0; n < view.num_buckets; ++n) {
    HbmBucket* bucket = view.buckets + at;
    const uint32_t mask = mask_of(bucket);
    for (uint32_t slot = 0; slot < HbmBucket::kSlots; ++slot) {
      const bool is_used = (mask >> slot & 1) != 0;
      if (is_used && bucket->Key(slot) == static_cast<uint64_t>(key)) return {bucket, slot};
    }
    if ((mask & HbmBucket::kOverflowed) == 0) break;
    if (++at == view.num_buckets) at = 0;
  }
  return {nullptr, 0};
}

// The part of a bucket that one lane of a tile reads.
struct alignas(16) HbmQuarterLine {
  uint32_t words[4];
};

}  // namespace cuda_impl

__device__ inline uint32_t HbmIndexView::Find(int64_t key) const {
  const cuda_impl::HbmSlot slot =
      cuda_impl::FindSlot(*this, key, [](const HbmBucket* bucket) { return bucket->words[0]; });
  return slot.bucket == nullptr ? kNoHbmRow : slot.bucket->Row(slot.number);
}

__device__ inline uint32_t HbmIndexView::FindByTile(int64_t key) const {
  using T = cuda_impl::Tile<kLanes>;
  const int lane = T::Lane();
  const auto wanted = static_cast<uint64_t>(key);
  uint32_t at = HomeOf(key);
  for (uint32_t n = 0; n < num_buckets; ++n) {
    const auto mine = reinterpret_cast<const cuda_impl::HbmQuarterLine*>(buckets[at].words)[lane];
    const uint32_t mask = T::FromLane(mine.words[0], 0);
    // Lane 0 has key 0 after the mask, lanes 1 to 4 have two keys each, and lane 5 has the last key
    // and two rows.
    const uint64_t first = mine.words[0] | uint64_t{mine.words[1]} << 32;
    const uint64_t second = mine.words[2] | uint64_t{mine.words[3]} << 32;
    const bool is_first =
        lane >= 1 && lane <= 5 && (mask >> (2 * lane - 1) & 1) != 0 && first == wanted;
    const bool is_second = lane <= 4 && (mask >> (2 * lane) & 1) != 0 && second == wanted;
    const unsigned firsts = T::Ballot(is_first);
    const unsigned seconds = T::Ballot(is_second);
    if ((firsts | seconds) != 0) {
      const int owner = __ffs(static_cast<int>(firsts | seconds)) - 1;
      const int slot = firsts != 0 ? 2 * owner - 1 : 2 * owner;
      const int word = static_cast<int>(HbmBucket::kFirstRowWord) + slot;
      return T::FromLane(mine.words[word & 3], word >> 2);
    }
    if ((mask & HbmBucket::kOverflowed) == 0) break;
    if (++at == num_buckets) at = 0;
  }
  return kNoHbmRow;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_INDEX_HBM_INDEX_FIND_H_
