// The gradients of an op's ids, gathered by row in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_GRADIENTS_ROW_SEGMENTS_H_
#define KERAS_SPARSE_OPS_CORE_GRADIENTS_ROW_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/gradients/output_gradient.h"

namespace keras_sparse::cuda_impl {

// The gradient of a lookup.
struct SegmentRequest {
  OutputGradient gradient;  // all of it in the GPU's memory; grads with their stride
  const uint32_t* found;    // (gradient.bags.num_ids) the row of each id, kNoHbmRow for none
  int64_t num_rows;         // of the table
  // Whether it is of the rows of the request before it, after whose ids its own come.
  bool shares_rows = false;
};

// As kernels see them. The rows of all requests are numbered one after the other: a segment is one
// row with its ids, in the order in which they came. What is said of its gradients but for where
// they are, their type and width and whether they count once, is the same for all requests that
// share its rows. Ids without a row make one more segment at the
// end, of row `num_rows`.
struct SegmentsView {
  const SegmentRequest* requests;  // (num_requests)
  const uint8_t* count_once;       // (num_requests) whether gradients are added as they are
  const int64_t* first_rows;       // (num_requests + 1)
  int num_requests;
  int64_t num_ids;
  const uint32_t* rows;          // (num_ids) of each id, sorted
  const uint32_t* begins;        // (num_segments) where each begins in `rows`
  const uint32_t* num_segments;  // (1)
  // The gradient of an id's bag, in the order of `rows`, and what that is multiplied with. See
  // GradientSource.
  const void* const* gradients;  // (num_ids)
  const float* coefficients;     // (num_ids) or null, if no request has any but ones
  // (num_ids / kLongSegment + 1, dim): the sums of the segments of more than kLongSegment ids, each
  // at the place begin / kLongSegment, which no other one has.
  const float* long_sums;
};

// So many gradients are left to one tile; more of them to a block.
constexpr uint32_t kLongSegment = 256;

class RowSegments {
 public:
  // The most ids of all requests, and one more than the most rows.
  static constexpr int64_t kMost = (int64_t{1} << 32) - 1;

  // The work to find them.
  // REQUIRES: one dim; one type of gradients that share rows; no more ids, and fewer rows, than
  // kMost; sound bags (CheckBags)
  static Status Make(const std::vector<SegmentRequest>& requests, Device* device,
                     RowSegments* segments);

  const SegmentsView& view() const { return view_; }
  int64_t num_ids() const { return rows_.size(); }

 private:
  DeviceArray<SegmentRequest> requests_;
  DeviceArray<int64_t> first_rows_;
  DeviceArray<uint32_t> rows_;
  DeviceArray<uint32_t> begins_;
  DeviceArray<uint32_t> num_segments_;
  DeviceArray<uint8_t> count_once_;
  DeviceArray<const void*> gradients_;
  DeviceArray<float> coefficients_;
  DeviceArray<float> long_sums_;
  SegmentsView view_ = {};
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_GRADIENTS_ROW_SEGMENTS_H_
