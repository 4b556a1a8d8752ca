// The sum over a row's columns, by the lanes of a tile.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_TILE_SUM_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_TILE_SUM_H_

#include <cstdint>

#include "ops/core/device/device_code.h"

namespace keras_sparse::cuda_impl {

// What Dot of math/dot.h adds, in its order, for a tile of any width: the sums of a warp's lanes,
// of which each lane here has several, and then half onto half. All lanes of the tile get it.
//   term(column)  what is added for a column
template <int kLanes, typename Term>
__device__ float TileSum(int64_t dim, const Term& term) {
  using T = Tile<kLanes>;
  constexpr int kSums = kWarp / kLanes;
  float sums[kSums] = {};
  for (int64_t first = 0; first < dim; first += kWarp) {
    for (int s = 0; s < kSums; ++s) {
      const int64_t column = first + s * kLanes + T::Lane();
      if (column < dim) sums[s] += term(column);
    }
  }
  for (int half = kSums / 2; half > 0; half /= 2) {
    for (int s = 0; s < half; ++s) sums[s] += sums[s + half];
  }
  // Of what follows only the lower half of the lanes is of use each time, and lane 0 at the end.
  float sum = sums[0];
  for (int half = kLanes / 2; half > 0; half /= 2) sum += T::FromLane(sum, T::Lane() + half);
  return T::FromLane(sum, 0);
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_TILE_SUM_H_
