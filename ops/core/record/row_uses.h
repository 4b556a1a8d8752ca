// RowUses: the uses of a row, by which a full first tier selects the coldest rows to demote.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_ROW_USES_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_ROW_USES_H_

#include <algorithm>
#include <cstdint>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

// Time is counted in updates of the table, and wraps. The row with the lower score is the colder
// one.

// Returns a score by the update that last used the row.
KERAS_SPARSE_HOST_DEVICE inline uint32_t RecencyScore(uint32_t last, uint32_t now) {
  return ~uint32_t{0} - (now - last);  // of the age, because the clock wraps
}

// Counts the updates that have used a row since it was added. Old uses count less, so that a row
// that was hot once does not stay forever: all counts are halved every 1024 updates.
struct RowUses {
  uint32_t count;  // as of the last update
  uint32_t last;   // the update that last used it

  KERAS_SPARSE_HOST_DEVICE uint32_t CountAt(uint32_t now) const {
    constexpr int kHalvingBits = 10;
    constexpr uint32_t kHalvings = (uint32_t{1} << (32 - kHalvingBits)) - 1;  // the clock wraps
    const uint32_t halvings = ((now >> kHalvingBits) - (last >> kHalvingBits)) & kHalvings;
    return halvings > 31 ? 0 : count >> halvings;
  }
  // Returns the uses after a further use, at a later time than the last.
  KERAS_SPARSE_HOST_DEVICE RowUses UsedAt(uint32_t now) const {
    const uint32_t before = CountAt(now);
    return {before == ~uint32_t{0} ? before : before + 1, now};
  }
  // Returns a score by number of uses, then by the update that last used the row.
  KERAS_SPARSE_HOST_DEVICE uint64_t FrequencyScore(uint32_t now) const {
    return (uint64_t{CountAt(now)} << 32) | RecencyScore(last, now);
  }
};

// Returns how many of `size` rows a tier keeps if it is full with `limit` rows. A full tier first
// frees room for as many rows as the last update created (at most half of the limit), so that the
// next update fits. It demotes a further 16th, so that it is scanned rarely. Parts of a tier demote
// different numbers, so that they do not all reach their limit in one update.
inline int64_t NumRowsKept(int64_t size, int64_t limit, int64_t num_started, int64_t part = 0,
                           int64_t num_parts = 1) {
  constexpr int64_t kLeavingShare = 16;
  const int64_t most = limit - std::min(num_started, limit / 2);
  if (size <= most) return size;
  const int64_t leaving = most / kLeavingShare;
  return most - leaving + leaving / 2 * part / num_parts;
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_RECORD_ROW_USES_H_
