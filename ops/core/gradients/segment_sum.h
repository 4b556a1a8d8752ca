// SumSegment: sums the gradients of a row in a lane of a kernel.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_SEGMENT_SUM_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_SEGMENT_SUM_H_

#include <cstdint>

#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/gradients/row_segments.h"

namespace keras_sparse::cuda_impl {

// One segment: the ids of one row.
struct Segment {
  uint32_t row;   // among the rows of all requests
  int64_t begin;  // of its ids, in `rows`
  int64_t end;
};

__device__ inline Segment SegmentAt(const SegmentsView& view, int64_t number) {
  const int64_t num_segments = *view.num_segments;
  const int64_t begin = view.begins[number];
  const int64_t end = number + 1 < num_segments ? int64_t{view.begins[number + 1]} : view.num_ids;
  return {view.rows[begin], begin, end};
}

// Returns the request of a row, the last one of several; num_requests for the segment of ids
// without a row.
__device__ inline int RequestOf(const SegmentsView& view, uint32_t row) {
  if (int64_t{row} >= view.first_rows[view.num_requests]) return view.num_requests;
  return Parts{view.first_rows, view.num_requests}.Find(row);
}

// Loads a gradient, starting with a column.
template <bool kAreFloats, int kFloats>
__device__ Floats<kFloats> LoadOf(FloatType type, const void* gradient, int64_t column) {
  if constexpr (kAreFloats) return Load<kFloats>(static_cast<const float*>(gradient) + column);
  return LoadAny<kFloats>(type, gradient, column);
}

// Returns the summand of the id at a position of `rows`.
//   kAreFloats  whether the type is float32, known at compile time so that overlapping loads need
//               not wait for the type
template <bool kAreFloats, int kFloats>
__device__ Floats<kFloats> GradientAt(const SegmentsView& view, FloatType type, bool counts_once,
                                      int64_t at, int64_t column) {
  auto gradient = LoadOf<kAreFloats, kFloats>(type, view.gradients[at], column);
  if (counts_once) return gradient;
  for (int f = 0; f < kFloats; ++f) gradient.at[f] = view.coefficients[at] * gradient.at[f];
  return gradient;
}

// Sums a segment of a few gradients.
template <bool kAreFloats, int kFloats>
__device__ Floats<kFloats> SumShort(const SegmentsView& view, int request, const Segment& segment,
                                    int64_t column) {
  constexpr int kInFlight = 4;
  // Read once, not for each gradient.
  const FloatType type = view.requests[request].gradient.grads.type;
  const bool counts_once = view.count_once[request] != 0;
  Floats<kFloats> sum;
  for (int f = 0; f < kFloats; ++f) sum.at[f] = kEmptySum;
  for (int64_t at = segment.begin; at < segment.end; at += kInFlight) {
    Floats<kFloats> gradients[kInFlight] = {};
    for (int k = 0; k < kInFlight; ++k) {
      if (at + k >= segment.end) continue;
      gradients[k] = GradientAt<kAreFloats, kFloats>(view, type, counts_once, at + k, column);
    }
    for (int k = 0; k < kInFlight; ++k) {
      if (at + k >= segment.end) continue;
      for (int f = 0; f < kFloats; ++f) sum.at[f] += gradients[k].at[f];
    }
  }
  return sum;
}

// Returns the sum of a segment's gradients, starting with a column.
//   request  RequestOf its row
template <int kFloats>
__device__ Floats<kFloats> SumSegment(const SegmentsView& view, int request, const Segment& segment,
                                      int64_t column) {
  const OutputGradient& gradient = view.requests[request].gradient;
  if (segment.end - segment.begin > kGradientsPerRun) {
    return Load<kFloats>(view.run_sums + PlaceOfSum(segment.begin) * gradient.dim + column);
  }
  return gradient.grads.are_floats() ? SumShort<true, kFloats>(view, request, segment, column)
                                     : SumShort<false, kFloats>(view, request, segment, column);
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_SEGMENT_SUM_H_
