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

// Marks the sorted ids that are among the first max_entries of their run.
__global__ void MarkEntriesKernel(int64_t n, const uint32_t* begins, const uint32_t* num_runs,
                                  int64_t max_entries, uint8_t* are_entries) {
  for (int64_t i = LaneOfKernel(); i < n; i += LanesOfKernel()) {
    are_entries[i] = i - begins[LastAtMost(begins, int64_t{*num_runs}, i)] < max_entries;
  }
}

//   begins   where runs of equal ids begin
//   entries  the first entry of a run is the run's; `begins` itself if each run has one entry
__global__ void NumberIdsKernel(const uint32_t* places, int64_t n, const uint32_t* begins,
                                const uint32_t* num_runs, const uint32_t* entries,
                                const uint32_t* num_entries, uint32_t* numbers) {
  for (int64_t i = LaneOfKernel(); i < n; i += LanesOfKernel()) {
    int64_t number = LastAtMost(begins, int64_t{*num_runs}, i);
    if (entries != begins) {
      number = LastAtMost(entries, int64_t{*num_entries}, int64_t{begins[number]});
    }
    numbers[places[i]] = static_cast<uint32_t>(number);
  }
}

__global__ void CopyIdsKernel(const int64_t* sorted, const uint32_t* entries, int64_t num_entries,
                              int64_t* ids) {
  for (int64_t i = LaneOfKernel(); i < num_entries; i += LanesOfKernel()) {
    ids[i] = sorted[entries[i]];
  }
}

__global__ void FillKernel(float* values, int64_t n, float value) {
  for (int64_t i = LaneOfKernel(); i < n; i += LanesOfKernel()) values[i] = value;
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

Status DeviceMerger::Sort(const OutputGradient& gradient, Device* device, uint32_t* num_entries,
                          SortedIds* sorted) {
  const int64_t n = gradient.bags.num_ids;
  const bool has_one_each = gradient.max_entries == 1;
  DeviceArray<uint32_t> places;
  DeviceArray<uint32_t> begins;
  DeviceArray<uint32_t> num_runs;
  DeviceArray<uint8_t> are_entries;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, n, &places));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Allocate(device, n, &sorted->ids));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, n, &sorted->entries));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, n, &sorted->numbers));
  KERAS_SPARSE_RETURN_IF_ERROR(
      StableSort(gradient.ids, n, device, sorted->ids.data(), places.data()));
  if (has_one_each) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        FindRuns(sorted->ids.data(), n, device, sorted->entries.data(), num_entries));
  } else {
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, n, &begins));
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, 1, &num_runs));
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint8_t>::Allocate(device, n, &are_entries));
    KERAS_SPARSE_RETURN_IF_ERROR(
        FindRuns(sorted->ids.data(), n, device, begins.data(), num_runs.data()));
    Launch(MarkEntriesKernel, BlocksFor(*device, n), kBlock, device->stream(), n, begins.data(),
           num_runs.data(), gradient.max_entries, are_entries.data());
    KERAS_SPARSE_RETURN_IF_ERROR(
        SelectPlaces(are_entries.data(), n, device, sorted->entries.data(), num_entries));
  }
  Launch(NumberIdsKernel, BlocksFor(*device, n), kBlock, device->stream(), places.data(), n,
         has_one_each ? sorted->entries.data() : begins.data(),
         has_one_each ? num_entries : num_runs.data(), sorted->entries.data(), num_entries,
         sorted->numbers.data());
  return Status::Ok();
}

Status DeviceMerger::Create(const std::vector<OutputGradient>& gradients, Device* device,
                            DeviceMerger* merger) {
  DeviceMerger made;
  made.device_ = device;
  made.gradients_ = gradients;
  made.sorted_.resize(gradients.size());
  DeviceArray<uint32_t> num_entries;
  DeviceArray<IdChecks> checks;
  std::vector<BagsToCheck> bags;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(
      device, static_cast<int64_t>(gradients.size()), &num_entries));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<IdChecks>::Copy(device, {IdChecks()}, &checks));
  for (size_t i = 0; i < gradients.size(); ++i) {
    KERAS_SPARSE_RETURN_IF_ERROR(gradients[i].bags.CheckSizes());
    bags.push_back({gradients[i].bags, checks.data()});
    KERAS_SPARSE_RETURN_IF_ERROR(
        Sort(gradients[i], device, num_entries.data() + i, &made.sorted_[i]));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(CheckBags(bags, device));
  std::vector<IdChecks> found;
  KERAS_SPARSE_RETURN_IF_ERROR(num_entries.Read(&made.num_entries_));
  KERAS_SPARSE_RETURN_IF_ERROR(checks.Read(&found));
  KERAS_SPARSE_RETURN_IF_ERROR(found[0].BagsStatus());
  *merger = std::move(made);
  return Status::Ok();
}

Status DeviceMerger::Write(const std::vector<GradientMerger::Result>& results) const {
  for (size_t i = 0; i < results.size(); ++i) {
    const int64_t n = num_entries(i);
    OutputGradient gradient = gradients_[i];
    gradient.grads = gradient.grads.Of(gradient.dim);
    RowSegments segments;
    KERAS_SPARSE_RETURN_IF_ERROR(
        RowSegments::Make({{gradient, sorted_[i].numbers.data(), n}}, device_, &segments));
    Launch(CopyIdsKernel, BlocksFor(*device_, n), kBlock, device_->stream(), sorted_[i].ids.data(),
           sorted_[i].entries.data(), n, results[i].ids);
    if (gradient.max_entries > 1) {  // sums are written only to first entries
      Launch(FillKernel, BlocksFor(*device_, n * gradient.dim), kBlock, device_->stream(),
             results[i].values, n * gradient.dim, kEmptySum);
    }
    const GradientRows& grads = gradient.grads;
    const bool has_vectors = HasVectors(grads.data, grads.stride, gradient.dim, grads.type);
    Launch(has_vectors ? SumKernel<kMaxLaneFloats> : SumKernel<1>,
           BlocksFor(*device_, n, kSumLanes), kBlock, device_->stream(), segments.view(),
           results[i].values);
  }
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
