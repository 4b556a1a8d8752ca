// RowSegments: the gradients of an op's ids, grouped by row in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_ROW_SEGMENTS_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_ROW_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/host_device.h"
#include "ops/core/base/status.h"
#include "ops/core/device/arrays_on_device.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/gradients/output_gradient.h"

namespace keras_sparse::cuda_impl {

// The gradient of a lookup.
struct SegmentRequest {
  OutputGradient gradient;  // all of it in the GPU's memory; grads with their stride
  const uint32_t* found;    // (gradient.bags.num_ids) the row of each id, kNoHbmRow for none
  int64_t num_rows;         // of the table
  // Whether the request is for the rows of the previous request; its ids then follow those ids.
  bool shares_rows = false;
};

// Segments as kernels see them. Rows of all requests are numbered consecutively. A segment is one
// row with its ids, in input order. Requests that share rows also share the type and width of their
// gradients, and whether they count once; only the addresses differ. Ids without a row form one
// more segment at the end, with row `num_rows`.
struct SegmentsView {
  const SegmentRequest* requests;  // (num_requests)
  const uint8_t* count_once;       // (num_requests) whether gradients are added unscaled
  const int64_t* first_rows;       // (num_requests + 1)
  int num_requests;
  int64_t num_ids;
  const uint32_t* rows;          // (num_ids) the row of each id, sorted
  const uint32_t* begins;        // (num_segments) start of each segment in `rows`
  const uint32_t* num_segments;  // (1)
  // The gradient of each id's bag, in the order of `rows`, and its coefficient. See GradientSource.
  const void* const* gradients;  // (num_ids)
  const float* coefficients;     // (num_ids) or null, if all are ones
  // (any, dim): the sum of a segment with more than kGradientsPerRun ids is at its PlaceOfSum.
  float* run_sums;
};

// Each kGradientsPerRun ids have two places. The sum of a segment has the second one of its first
// id, because no other segment as long begins so near. The first place is for a run of a segment
// that has begun before: see FindRun.
KERAS_SPARSE_HOST_DEVICE inline int64_t PlaceOfSum(int64_t segment_begin) {
  return 2 * (segment_begin / kGradientsPerRun) + 1;
}

class RowSegments {
 public:
  // Maximum number of ids of all requests, and one more than the maximum number of rows.
  static constexpr int64_t kMost = (int64_t{1} << 32) - 1;

  // Enqueues the work to find the segments.
  // REQUIRES: all requests have the same dim; requests that share rows have one type of gradients;
  // at most kMost ids, and fewer rows than kMost; sound bags (CheckBags)
  static Status Make(const std::vector<SegmentRequest>& requests, Device* device,
                     RowSegments* segments);

  const SegmentsView& view() const { return view_; }
  int64_t num_ids() const { return rows_.size(); }

 private:
  ArraysOnDevice arrays_;
  DeviceArray<uint32_t> rows_;
  DeviceArray<uint32_t> begins_;
  DeviceArray<uint32_t> num_segments_;
  DeviceArray<const void*> gradients_;
  DeviceArray<float> coefficients_;
  DeviceArray<float> run_sums_;
  SegmentsView view_ = {};
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_ROW_SEGMENTS_H_
