#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/device/device_sort.h"
#include "ops/core/gradients/row_segments.h"
#include "ops/core/gradients/segment_sum.h"
#include "ops/core/index/hbm_row.h"

namespace keras_sparse::cuda_impl {
namespace {

// Lanes that write what is to be known of a bag's ids.
constexpr int kBagLanes = 8;
// A block sums this many columns of a long segment, and loads so many of its gradients at a time.
constexpr int kLongColumns = 32;
constexpr int kLongIds = 64;
constexpr int kLongBlock = 256;

// The row of each id among those of all requests.
__global__ void RowsKernel(SegmentsView view, uint32_t* rows) {
  const Parts ids = {view.first_ids, view.num_requests};
  for (int64_t i = LaneOfKernel(); i < ids.size(); i += LanesOfKernel()) {
    const int r = ids.Find(i);
    const uint32_t row = view.requests[r].found[i - view.first_ids[r]];
    rows[i] = static_cast<uint32_t>(row == kNoHbmRow ? view.first_rows[view.num_requests]
                                                     : view.first_rows[r] + row);
  }
}

// What GradientSource::FillBags does. The splits are those of a lookup, which has checked them.
__global__ void BagsKernel(SegmentsView view, const int64_t* first_bags, uint32_t* bag_of,
                           float* coefficients) {
  using T = Tile<kBagLanes>;
  const Parts bags_of_all = {first_bags, view.num_requests};
  for (int64_t i = T::Number(); i < bags_of_all.size(); i += T::Count()) {
    const int r = bags_of_all.Find(i);
    const Bags& bags = view.requests[r].gradient.bags;
    const int64_t bag = i - first_bags[r];
    const bool pools = bags.combiner != Combiner::kNone;
    const int64_t begin = pools ? bags.row_splits[bag] : bag;
    const int64_t end = pools ? bags.row_splits[bag + 1] : bag + 1;
    const float scale = bags.Scale(bag);
    for (int64_t at = begin + T::Lane(); at < end; at += kBagLanes) {
      bag_of[view.first_ids[r] + at] = static_cast<uint32_t>(bag);
      coefficients[view.first_ids[r] + at] =
          bags.weights == nullptr ? scale : scale * bags.weights[at];
    }
  }
}

// The number of the last segment that begins before `place`.
__device__ int64_t SegmentBefore(const SegmentsView& view, int64_t place) {
  return LastAtMost(view.begins, int64_t{*view.num_segments}, place - 1);
}

// Gradients that a block has loaded, for one warp to add up in their order.
struct LoadedGradients {
  float floats[kLongIds][kLongColumns];
  float coefficients[kLongIds];
};

__device__ void LoadGradients(const SegmentsView& view, const SegmentRequest& request, int64_t at,
                              int64_t end, int64_t first_column, LoadedGradients* to) {
  for (int i = static_cast<int>(threadIdx.x); i < kLongIds * kLongColumns; i += kLongBlock) {
    const int id = i / kLongColumns;
    const int64_t column = first_column + i % kLongColumns;
    if (at + id >= end || column >= request.gradient.dim) continue;
    const IdGradient gradient = GradientAt(view, request, at + id);
    to->floats[id][i % kLongColumns] =
        LoadAny<1>(request.gradient.grads.type, gradient.row, column).at[0];
    if (i % kLongColumns == 0) to->coefficients[id] = gradient.coefficient;  // one lane an id
  }
}

// Sums kLongColumns columns of a long segment, by a block.
__device__ void SumLong(const SegmentsView& view, const SegmentRequest& request,
                        const Segment& segment, int64_t first_column, float* to) {
  LoadedGradients& loaded = SharedOfBlock<LoadedGradients>();
  const bool counts_once = CountsOnce(request.gradient.bags);
  const int64_t column = first_column + threadIdx.x;
  const bool sums = threadIdx.x < kLongColumns && column < request.gradient.dim;
  Floats<1> sum = {};
  for (int64_t at = segment.begin; at < segment.end; at += kLongIds) {
    LoadGradients(view, request, at, segment.end, first_column, &loaded);
    __syncthreads();
    for (int k = 0; sums && k < kLongIds && at + k < segment.end; ++k) {
      AddGradient(counts_once, at + k == segment.begin, {loaded.floats[k][threadIdx.x]},
                  loaded.coefficients[k], &sum);
    }
    __syncthreads();
  }
  if (sums) to[column] = sum.at[0];
}

// Of kLongSegment ids and more, at most one segment that is longer begins among them: the last.
__global__ void LongSegmentsKernel(SegmentsView view, int64_t dim, float* sums) {
  const int64_t num_ids = view.first_ids[view.num_requests];
  const int64_t num_places = num_ids / kLongSegment + 1;
  const int64_t pieces = (dim + kLongColumns - 1) / kLongColumns;
  for (int64_t i = blockIdx.x; i < num_places * pieces; i += gridDim.x) {
    const int64_t place = i / pieces;
    const Segment segment = SegmentAt(view, SegmentBefore(view, (place + 1) * kLongSegment));
    if (segment.begin / kLongSegment != place) continue;
    if (segment.end - segment.begin <= kLongSegment) continue;
    const int request = RequestOf(view, segment.row);
    if (request == view.num_requests) continue;
    SumLong(view, view.requests[request], segment, i % pieces * kLongColumns, sums + place * dim);
  }
}

int NumBits(int64_t number) {
  int bits = 1;
  while (number >> bits != 0) ++bits;
  return bits;
}

}  // namespace

Status RowSegments::Make(const std::vector<SegmentRequest>& requests, Device* device,
                         RowSegments* segments) {
  std::vector<int64_t> first_rows = {0};
  std::vector<int64_t> first_ids = {0};
  std::vector<int64_t> first_bags = {0};
  for (const SegmentRequest& each : requests) {
    first_rows.push_back(first_rows.back() + each.num_rows);
    first_ids.push_back(first_ids.back() + each.gradient.bags.num_ids);
    first_bags.push_back(first_bags.back() + each.gradient.bags.num_bags);
  }
  const int64_t num_ids = first_ids.back();
  const int64_t dim = requests.empty() ? 0 : requests[0].gradient.dim;
  RowSegments made;
  DeviceArray<int64_t> bags;
  DeviceArray<uint32_t> unsorted;
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<SegmentRequest>::Copy(device, requests, &made.requests_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Copy(device, first_rows, &made.first_rows_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Copy(device, first_ids, &made.first_ids_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Copy(device, first_bags, &bags));
  for (DeviceArray<uint32_t>* each :
       {&unsorted, &made.rows_, &made.places_, &made.begins_, &made.bag_of_}) {
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, num_ids, each));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, 1, &made.num_segments_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<float>::Allocate(device, num_ids, &made.coefficients_));
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<float>::Allocate(device, (num_ids / kLongSegment + 1) * dim, &made.long_sums_));
  made.view_ = {made.requests_.data(),  made.first_rows_.data(),
                made.first_ids_.data(), static_cast<int>(requests.size()),
                made.rows_.data(),      made.places_.data(),
                made.begins_.data(),    made.num_segments_.data(),
                made.bag_of_.data(),    made.coefficients_.data(),
                made.long_sums_.data()};
  Launch(RowsKernel, BlocksFor(*device, num_ids), kBlock, device->stream(), made.view_,
         unsorted.data());
  Launch(BagsKernel, BlocksFor(*device, first_bags.back(), kBagLanes), kBlock, device->stream(),
         made.view_, bags.data(), made.bag_of_.data(), made.coefficients_.data());
  KERAS_SPARSE_RETURN_IF_ERROR(StableSort(unsorted.data(), num_ids, NumBits(first_rows.back()),
                                          device, made.rows_.data(), made.places_.data()));
  KERAS_SPARSE_RETURN_IF_ERROR(
      FindRuns(made.rows_.data(), num_ids, device, made.begins_.data(), made.num_segments_.data()));
  if (num_ids > kLongSegment) {
    Launch(LongSegmentsKernel, device->num_blocks(), kLongBlock, device->stream(), made.view_, dim,
           made.long_sums_.data());
  }
  *segments = std::move(made);
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
