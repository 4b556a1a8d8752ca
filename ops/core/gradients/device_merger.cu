#include <utility>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/device/device_sort.h"
#include "ops/core/gradients/device_merger.h"
#include "ops/core/gradients/row_segments.h"
#include "ops/core/gradients/segment_sum.h"
#include "ops/core/ids/check_bags.h"

namespace keras_sparse::cuda_impl {
namespace {

// Lanes that add the gradients of an id.
constexpr int kSumLanes = 8;

__global__ void NumberIdsKernel(const uint32_t* places, int64_t n, const uint32_t* begins,
                                const uint32_t* num_runs, uint32_t* numbers) {
  for (int64_t i = LaneOfKernel(); i < n; i += LanesOfKernel()) {
    numbers[places[i]] = static_cast<uint32_t>(LastAtMost(begins, int64_t{*num_runs}, i));
  }
}

__global__ void CopyDistinctKernel(const int64_t* sorted, const uint32_t* begins, int64_t num_runs,
                                   int64_t* distinct) {
  for (int64_t i = LaneOfKernel(); i < num_runs; i += LanesOfKernel()) {
    distinct[i] = sorted[begins[i]];
  }
}

template <int kFloats>
__global__ void SumKernel(SegmentsView view, float* sums) {
  using T = Tile<kSumLanes>;
  const int64_t dim = view.requests[0].gradient.dim;
  for (int64_t i = T::Number(); i < int64_t{*view.num_segments}; i += T::Count()) {
    const Segment segment = SegmentAt(view, i);
    for (int64_t column = int64_t{T::Lane()} * kFloats; column < dim;
         column += kSumLanes * kFloats) {
      Store(FloatType::kFloat32, SumSegment<kFloats>(view, 0, segment, column),
            sums + int64_t{segment.row} * dim + column);
    }
  }
}

}  // namespace

Status DeviceMerger::Sort(const OutputGradient& gradient, Device* device, uint32_t* num_runs,
                          SortedIds* sorted) {
  const int64_t n = gradient.bags.num_ids;
  DeviceArray<uint32_t> places;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, n, &places));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Allocate(device, n, &sorted->ids));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, n, &sorted->begins));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, n, &sorted->numbers));
  KERAS_SPARSE_RETURN_IF_ERROR(
      StableSort(gradient.ids, n, device, sorted->ids.data(), places.data()));
  KERAS_SPARSE_RETURN_IF_ERROR(
      FindRuns(sorted->ids.data(), n, device, sorted->begins.data(), num_runs));
  Launch(NumberIdsKernel, BlocksFor(*device, n), kBlock, device->stream(), places.data(), n,
         sorted->begins.data(), num_runs, sorted->numbers.data());
  return Status::Ok();
}

Status DeviceMerger::Create(const std::vector<OutputGradient>& gradients, Device* device,
                            DeviceMerger* merger) {
  DeviceMerger made;
  made.device_ = device;
  made.gradients_ = gradients;
  made.sorted_.resize(gradients.size());
  DeviceArray<uint32_t> num_runs;
  DeviceArray<IdChecks> checks;
  std::vector<BagsToCheck> bags;
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<uint32_t>::Allocate(device, static_cast<int64_t>(gradients.size()), &num_runs));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<IdChecks>::Copy(device, {IdChecks()}, &checks));
  for (size_t i = 0; i < gradients.size(); ++i) {
    KERAS_SPARSE_RETURN_IF_ERROR(gradients[i].bags.CheckSizes());
    bags.push_back({gradients[i].bags, checks.data()});
    KERAS_SPARSE_RETURN_IF_ERROR(Sort(gradients[i], device, num_runs.data() + i, &made.sorted_[i]));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(CheckBags(bags, device));
  std::vector<IdChecks> found;
  KERAS_SPARSE_RETURN_IF_ERROR(num_runs.Read(&made.num_unique_));
  KERAS_SPARSE_RETURN_IF_ERROR(checks.Read(&found));
  KERAS_SPARSE_RETURN_IF_ERROR(found[0].BagsStatus());
  *merger = std::move(made);
  return Status::Ok();
}

Status DeviceMerger::Write(const std::vector<GradientMerger::Result>& results) const {
  for (size_t i = 0; i < results.size(); ++i) {
    const int64_t n = num_unique(i);
    OutputGradient gradient = gradients_[i];
    gradient.grads = gradient.grads.Of(gradient.dim);
    RowSegments segments;
    KERAS_SPARSE_RETURN_IF_ERROR(
        RowSegments::Make({{gradient, sorted_[i].numbers.data(), n}}, device_, &segments));
    Launch(CopyDistinctKernel, BlocksFor(*device_, n), kBlock, device_->stream(),
           sorted_[i].ids.data(), sorted_[i].begins.data(), n, results[i].ids);
    const GradientRows& grads = gradient.grads;
    const bool has_vectors = HasVectors(grads.data, grads.stride, gradient.dim, grads.type);
    Launch(has_vectors ? SumKernel<kMaxLaneFloats> : SumKernel<1>,
           BlocksFor(*device_, n, kSumLanes), kBlock, device_->stream(), segments.view(),
           results[i].values);
  }
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
