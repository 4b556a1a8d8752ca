// TileSum and SumOfSquares: sums over a row's columns, by the lanes of a tile.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_TILE_SUM_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_TILE_SUM_H_

#include <cstddef>
#include <cstdint>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_floats.h"

namespace keras_sparse::cuda_impl {

// Adds as Dot of math/dot.h does, in the same order, for a tile of any width: each lane here has
// several of the sums of a warp's lanes, which are then added half onto half. All lanes of the tile
// get the sum.
//   term(column)  returns the summand of a column
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
  // Each time only the lower half of the lanes has a valid sum, and finally lane 0.
  float sum = sums[0];
  for (int half = kLanes / 2; half > 0; half /= 2) sum += T::FromLane(sum, T::Lane() + half);
  return T::FromLane(sum, 0);
}

// Returns the sum of the squares of columns that the lanes of a tile hold, in the order of Dot.
// Columns beyond a row are zeros.
//   pieces  each of kLanes * kFloats neighbouring columns, kFloats of a lane
template <int kLanes, int kFloats, size_t kPieces>
__device__ float SumOfSquares(const Floats<kFloats> (&pieces)[kPieces]) {
  using T = Tile<kLanes>;
  // Lanes that hold a warp's columns, or all. Each adds what all lanes hold of its own columns.
  constexpr int kPart = kLanes * kFloats < kWarp ? kLanes : kWarp / kFloats;
  Floats<kFloats> sums = {};
  for (const Floats<kFloats>& piece : pieces) {
    for (int first = 0; first < kLanes; first += kPart) {
      for (int f = 0; f < kFloats; ++f) {
        const float value = T::FromLane(piece.at[f], first + T::Lane() % kPart);
        sums.at[f] += value * value;
      }
    }
  }
  // As in TileSum, until lane 0 has the sum.
  for (int half = kPart / 2; half > 0; half /= 2) {
    for (int f = 0; f < kFloats; ++f) {
      sums.at[f] += T::FromLane(sums.at[f], T::Lane() + half);
    }
  }
  for (int half = kFloats / 2; half > 0; half /= 2) {
    for (int f = 0; f < half; ++f) sums.at[f] += sums.at[f + half];
  }
  return T::FromLane(sums.at[0], 0);
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_TILE_SUM_H_
