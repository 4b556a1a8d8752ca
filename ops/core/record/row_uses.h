// What is kept of the updates that use a row, and what a full first tier makes of it: the coldest
// rows leave.
#ifndef KERAS_SPARSE_OPS_CORE_RECORD_ROW_USES_H_
#define KERAS_SPARSE_OPS_CORE_RECORD_ROW_USES_H_

#include <algorithm>
#include <cstdint>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

// Time is counted in updates of the table, and wraps. Of two rows that with the lower score is the
// colder.

// By the update that last used it.
KERAS_SPARSE_HOST_DEVICE inline uint32_t RecencyScore(uint32_t last, uint32_t now) {
  return ~uint32_t{0} - (now - last);  // of the age, as the clock wraps
}

// How many updates have used a row since it came in. Old uses count less, so that a row that was
// hot once does not stay for ever: every 1024 updates all uses are halved.
struct RowUses {
  uint32_t count;  // as of the last one
  uint32_t last;   // the update that last used it

  KERAS_SPARSE_HOST_DEVICE uint32_t CountAt(uint32_t now) const {
    constexpr int kHalvingBits = 10;
    constexpr uint32_t kHalvings = (uint32_t{1} << (32 - kHalvingBits)) - 1;  // as it wraps
    const uint32_t halvings = ((now >> kHalvingBits) - (last >> kHalvingBits)) & kHalvings;
    return halvings > 31 ? 0 : count >> halvings;
  }
  // After a further use, at another time than the last.
  KERAS_SPARSE_HOST_DEVICE RowUses UsedAt(uint32_t now) const {
    const uint32_t before = CountAt(now);
    return {before == ~uint32_t{0} ? before : before + 1, now};
  }
  // By uses, of equal ones by the update that last used it.
  KERAS_SPARSE_HOST_DEVICE uint64_t FrequencyScore(uint32_t now) const {
    return (uint64_t{CountAt(now)} << 32) | RecencyScore(last, now);
  }
};

// How many of `size` rows a tier keeps that is full with `limit` rows. Where some leave, it is a
// 16th of them, so that it is seldom looked through, and as many as the last update made: there is
// room for those of the next one then, but not at the cost of most rows. Parts of a tier leave
// different amounts, so that they do not all come to their limit in one update.
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
