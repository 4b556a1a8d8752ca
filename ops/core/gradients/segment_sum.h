// What a lane of a kernel makes of the gradients of a row.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_SEGMENT_SUM_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_SEGMENT_SUM_H_

#include <cstddef>
#include <cstdint>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/gradients/row_segments.h"

namespace keras_sparse::cuda_impl {

// One segment: the ids of one row.
struct Segment {
  uint32_t row;   // among those of all requests
  int64_t begin;  // of its ids, in `rows` and `places`
  int64_t end;
};

__device__ inline Segment SegmentAt(const SegmentsView& view, int64_t number) {
  const int64_t num_segments = *view.num_segments;
  const int64_t begin = view.begins[number];
  const int64_t end =
      number + 1 < num_segments ? view.begins[number + 1] : view.first_ids[view.num_requests];
  return {view.rows[begin], begin, end};
}

// The request of a row; num_requests for the row of ids that have none.
__device__ inline int RequestOf(const SegmentsView& view, uint32_t row) {
  if (int64_t{row} >= view.first_rows[view.num_requests]) return view.num_requests;
  return Parts{view.first_rows, view.num_requests}.Find(row);
}

// The gradient of one id, and what it is multiplied with.
struct IdGradient {
  const void* row;
  float coefficient;
};

__device__ inline IdGradient GradientAt(const SegmentsView& view, const SegmentRequest& request,
                                        int64_t at) {
  const uint32_t place = view.places[at];
  return {request.gradient.grads.Row(view.bag_of[place]), view.coefficients[place]};
}

// Adds to a sum as GradientSource::Sum does: where each id counts once in its bag the first one is
// taken as it is, which keeps the sign of a zero.
template <int kFloats>
__device__ inline void AddGradient(bool counts_once, bool is_first, const Floats<kFloats>& gradient,
                                   float coefficient, Floats<kFloats>* sum) {
  for (int f = 0; f < kFloats; ++f) {
    if (!counts_once) {
      sum->at[f] += coefficient * gradient.at[f];
    } else if (is_first) {
      sum->at[f] = gradient.at[f];
    } else {
      sum->at[f] += gradient.at[f];
    }
  }
}

// Whether the gradient of a bag is that of each of its ids.
__device__ inline bool CountsOnce(const Bags& bags) {
  return bags.combiner == Combiner::kNone ||
         (bags.combiner == Combiner::kSum && bags.weights == nullptr);
}

// The sum of a segment's gradients, from one column on.
template <int kFloats>
__device__ Floats<kFloats> SumSegment(const SegmentsView& view, const SegmentRequest& request,
                                      const Segment& segment, int64_t column) {
  constexpr int kInFlight = 4;
  if (segment.end - segment.begin > kLongSegment) {
    const int64_t place = segment.begin / kLongSegment;
    return Load<kFloats>(view.long_sums + place * request.gradient.dim + column);
  }
  const GradientRows& grads = request.gradient.grads;
  const bool counts_once = CountsOnce(request.gradient.bags);
  Floats<kFloats> sum = {};
  for (int64_t at = segment.begin; at < segment.end; at += kInFlight) {
    Floats<kFloats> rows[kInFlight] = {};
    float coefficients[kInFlight] = {};
    for (int k = 0; k < kInFlight; ++k) {
      if (at + k >= segment.end) continue;
      const IdGradient gradient = GradientAt(view, request, at + k);
      rows[k] = LoadAny<kFloats>(grads.type, gradient.row, column);
      coefficients[k] = gradient.coefficient;
    }
    for (int k = 0; k < kInFlight; ++k) {
      if (at + k >= segment.end) continue;
      AddGradient(counts_once, at + k == segment.begin, rows[k], coefficients[k], &sum);
    }
  }
  return sum;
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_SEGMENT_SUM_H_
