// A cursor is a position in a walk over a table's rows.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_TABLE_CURSOR_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_TABLE_CURSOR_H_

#include <cstdint>
#include <string>

#include "ops/core/base/status.h"

namespace keras_sparse {

// From the highest bit: the table's version when the walk began (15 bits), the tier (4 bits) and
// the tier's own cursor (44 bits).
constexpr int kCursorTierShift = 44;
constexpr int kCursorVersionShift = 48;
constexpr int64_t kCursorVersionMask = 0x7FFF;

inline int64_t MakeCursor(int64_t version, int64_t tier, int64_t position) {
  return ((version & kCursorVersionMask) << kCursorVersionShift) | (tier << kCursorTierShift) |
         position;
}

inline int64_t TierOf(int64_t cursor) { return (cursor >> kCursorTierShift) & 0xF; }
inline int64_t PositionOf(int64_t cursor) {
  return cursor & ((int64_t{1} << kCursorTierShift) - 1);
}

inline Status BadCursor(int64_t cursor) {
  return InvalidArgument("`cursor` must be 0 or one that Export gave. Received: cursor=" +
                         std::to_string(cursor));
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_TABLE_CURSOR_H_
