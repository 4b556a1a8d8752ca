#include <algorithm>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/device/device_sort.h"
#include "ops/core/gradients/row_segments.h"
#include "ops/core/gradients/segment_sum.h"
#include "ops/core/index/hbm_row.h"

namespace keras_sparse::cuda_impl {
namespace {

// Lanes that write the values of a bag's ids.
constexpr int kBagLanes = 8;
// Where the parts of requests begin, on the device, and the request of each part.
struct RequestParts {
  Parts ids;
  Parts bags;
};

// Writes the row of each id among the rows of all requests.
__global__ void RowsKernel(SegmentsView view, RequestParts parts, uint32_t* rows) {
  for (int64_t i = LaneOfKernel(); i < view.num_ids; i += LanesOfKernel()) {
    const int r = parts.ids.Find(i);
    const uint32_t row = view.requests[r].found[i - parts.ids.firsts[r]];
    rows[i] = static_cast<uint32_t>(row == kNoHbmRow ? view.first_rows[view.num_requests]
                                                     : view.first_rows[r] + row);
  }
}

// Does what GradientSource::FillBags does, for requests with bags, whose splits have been checked.
//   coefficients  (num_ids) or null
__global__ void BagsKernel(SegmentsView view, RequestParts parts, uint32_t* bag_of,
                           float* coefficients) {
  using T = Tile<kBagLanes>;
  for (int64_t i = T::Number(); i < parts.bags.size(); i += T::Count()) {
    const int r = parts.bags.Find(i);
    const Bags& bags = view.requests[r].gradient.bags;
    const int64_t bag = i - parts.bags.firsts[r];
    const float scale = bags.Scale(bag);
    for (int64_t at = bags.row_splits[bag] + T::Lane(); at < bags.row_splits[bag + 1];
         at += kBagLanes) {
      bag_of[parts.ids.firsts[r] + at] = static_cast<uint32_t>(bag);
      if (coefficients == nullptr) continue;
      coefficients[parts.ids.firsts[r] + at] =
          bags.weights == nullptr ? scale : scale * bags.weights[at];
    }
  }
}

// Orders the gradients that BagsKernel has found by row. An id without bags is its own bag.
__global__ void OrderKernel(SegmentsView view, RequestParts parts, const uint32_t* places,
                            const uint32_t* bag_of, const float* coefficient_of,
                            const void** gradients, float* coefficients) {
  for (int64_t i = LaneOfKernel(); i < view.num_ids; i += LanesOfKernel()) {
    const uint32_t place = places[i];
    const int r = parts.ids.Find(place);
    const OutputGradient& gradient = view.requests[r].gradient;
    const bool has_bags = gradient.bags.combiner != Combiner::kNone;
    gradients[i] = gradient.grads.Row(has_bags ? bag_of[place] : place - parts.ids.firsts[r]);
    if (coefficients != nullptr) coefficients[i] = has_bags ? coefficient_of[place] : 1;
  }
}

// Returns the ids of a run of a level: kGradientsPerRun, or those of as many runs of the level
// below.
KERAS_SPARSE_HOST_DEVICE int64_t RunLength(int level) {
  static_assert(kGradientsPerRun == 1 << 8, "a shift is faster than a product");
  return kGradientsPerRun << 8 * level;
}

// Returns the first place of a level for num_ids ids, after the places of the levels below. A level
// has two places for each RunLength(level) ids: for a run of a segment that has begun before, and
// for the first run of a segment. Only segments with more ids have runs of the level.
KERAS_SPARSE_HOST_DEVICE int64_t FirstPlace(int64_t num_ids, int level) {
  int64_t place = 0;
  for (int below = 0; below < level; ++below) place += 2 * (num_ids / RunLength(below) + 1);
  return place;
}

// Finds the run at a place of a level, and its segment. Returns the number of the run in the
// segment; -1 if there is none.
__device__ int64_t FindRun(const SegmentsView& view, int level, int64_t place, Segment* segment) {
  const int64_t length = RunLength(level);
  const bool is_first = place % 2 != 0;
  const int64_t window = place / 2;
  // An id inside the segment, not its first one.
  const int64_t inside = (is_first ? window + 1 : window) * length;
  if (inside == 0 || inside >= view.num_ids) return -1;
  if (view.rows[inside - 1] != view.rows[inside]) return -1;
  *segment = SegmentAt(view, LastAtMost(view.begins, int64_t{*view.num_segments}, inside));
  const int64_t run = window - segment->begin / length;
  if (segment->end - segment->begin <= length || (run == 0) != is_first) return -1;
  return segment->begin + run * length < segment->end ? run : -1;
}

// Adds items [begin, end) in order. Many are loaded at once: the last one repeatedly, because
// branches would separate the loads.
template <typename Item>
__device__ float SumItems(int64_t begin, int64_t end, const Item& item) {
  constexpr int kInFlight = 32;
  float sum = kEmptySum;
  for (; begin < end; begin += kInFlight) {
    float items[kInFlight];
    for (int k = 0; k < kInFlight; ++k) items[k] = item(begin + k < end ? begin + k : end - 1);
    for (int k = 0; k < kInFlight; ++k) {
      if (begin + k < end) sum += items[k];
    }
  }
  return sum;
}

// Sums a column of the gradients of ids [begin, end).
template <bool kAreFloats, bool kCountOnce>
__device__ float SumGradients(const SegmentsView& view, int request, int64_t begin, int64_t end,
                              int64_t column) {
  const FloatType type = view.requests[request].gradient.grads.type;
  return SumItems(begin, end, [&](int64_t at) {
    return GradientAt<kAreFloats, 1>(view, type, kCountOnce, at, column).at[0];
  });
}

// Sums a column of runs [begin, end) of a segment.
__device__ float SumRunsOf(const SegmentsView& view, const Segment& segment, int level,
                           int64_t begin, int64_t end, int64_t dim, int64_t column) {
  const int64_t first = FirstPlace(view.num_ids, level) + 2 * (segment.begin / RunLength(level));
  return SumItems(begin, end, [&](int64_t run) {
    return view.run_sums[(first + 2 * run + (run == 0 ? 1 : 0)) * dim + column];
  });
}

// Sums the runs of a level, a lane for each place and column, after the levels below.
__global__ void SumRunsKernel(SegmentsView view, int level, int64_t num_places, int64_t dim) {
  for (int64_t i = LaneOfKernel(); i < num_places * dim; i += LanesOfKernel()) {
    const int64_t place = i / dim;
    const int64_t column = i % dim;
    Segment segment;
    const int64_t run = FindRun(view, level, place, &segment);
    if (run < 0) continue;
    const int request = RequestOf(view, segment.row);
    if (request == view.num_requests) continue;
    const int64_t begin = segment.begin + run * RunLength(level);
    const int64_t end =
        begin + RunLength(level) < segment.end ? begin + RunLength(level) : segment.end;
    float* sum = view.run_sums + (FirstPlace(view.num_ids, level) + place) * dim + column;
    if (level == 0) {
      const bool are_floats = view.requests[request].gradient.grads.are_floats();
      if (view.count_once[request] != 0) {
        *sum = are_floats ? SumGradients<true, true>(view, request, begin, end, column)
                          : SumGradients<false, true>(view, request, begin, end, column);
      } else {
        *sum = are_floats ? SumGradients<true, false>(view, request, begin, end, column)
                          : SumGradients<false, false>(view, request, begin, end, column);
      }
    } else {
      const int64_t length = RunLength(level - 1);
      *sum = SumRunsOf(view, segment, level - 1, (begin - segment.begin) / length,
                       (end - segment.begin + length - 1) / length, dim, column);
    }
  }
}

// Sums the highest runs of each segment that has runs, in place of its first run.
__global__ void SumSegmentsKernel(SegmentsView view, int64_t dim) {
  for (int64_t i = LaneOfKernel(); i < view.num_ids / kGradientsPerRun * dim;
       i += LanesOfKernel()) {
    Segment segment;
    const int64_t place = 2 * (i / dim) + 1;
    if (FindRun(view, 0, place, &segment) < 0) continue;
    if (RequestOf(view, segment.row) == view.num_requests) continue;
    int level = 0;
    while (RunLength(level + 1) < segment.end - segment.begin) ++level;
    const int64_t num_runs = (segment.end - segment.begin - 1) / RunLength(level) + 1;
    view.run_sums[place * dim + i % dim] =
        SumRunsOf(view, segment, level, 0, num_runs, dim, i % dim);
  }
}

// Returns whether gradients of each request are added unscaled, which is the same for all requests
// that share rows.
std::vector<uint8_t> CountOnce(const std::vector<SegmentRequest>& requests) {
  std::vector<uint8_t> count_once;
  for (size_t first = 0, r = 0; r < requests.size(); ++r) {
    count_once.push_back(CountsOnce(requests[r].gradient.bags) ? 1 : 0);
    if (!requests[r].shares_rows) first = r;
    const bool all = std::all_of(count_once.begin() + static_cast<int64_t>(first), count_once.end(),
                                 [](uint8_t each) { return each != 0; });
    std::fill(count_once.begin() + static_cast<int64_t>(first), count_once.end(), all ? 1 : 0);
  }
  return count_once;
}

}  // namespace

Status RowSegments::Make(const std::vector<SegmentRequest>& requests, Device* device,
                         RowSegments* segments) {
  std::vector<int64_t> first_rows = {0};
  std::vector<int64_t> first_ids = {0};
  std::vector<int64_t> first_bags = {0};
  for (const SegmentRequest& each : requests) {
    const Bags& bags = each.gradient.bags;
    if (each.shares_rows) first_rows.back() = first_rows[first_rows.size() - 2];
    first_rows.push_back(first_rows.back() + each.num_rows);
    first_ids.push_back(first_ids.back() + bags.num_ids);
    const bool has_bags = bags.combiner != Combiner::kNone;
    first_bags.push_back(first_bags.back() + (has_bags ? bags.num_bags : 0));
  }
  const std::vector<uint8_t> count_once = CountOnce(requests);
  const bool all_count_once =
      std::find(count_once.begin(), count_once.end(), 0) == count_once.end();
  const int64_t num_ids = first_ids.back();
  const int64_t num_coefficients = all_count_once ? 0 : num_ids;
  const int64_t dim = requests.empty() ? 0 : requests[0].gradient.dim;
  const int num_requests = static_cast<int>(requests.size());
  RowSegments made;
  SegmentsView& view = made.view_;
  RequestParts parts = {{nullptr, num_requests}, {nullptr, num_requests}};
  DeviceArray<uint32_t> unsorted;
  DeviceArray<uint32_t> places;
  DeviceArray<uint32_t> bag_of;
  DeviceArray<float> coefficient_of;
  made.arrays_.Add(requests, &view.requests);
  made.arrays_.Add(count_once, &view.count_once);
  made.arrays_.Add(first_rows, &view.first_rows);
  made.arrays_.Add(first_ids, &parts.ids.firsts);
  made.arrays_.Add(first_bags, &parts.bags.firsts);
  KERAS_SPARSE_RETURN_IF_ERROR(made.arrays_.Copy(device));
  for (DeviceArray<uint32_t>* each : {&unsorted, &places, &bag_of, &made.rows_, &made.begins_}) {
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, num_ids, each));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<const void*>::Allocate(device, num_ids, &made.gradients_));
  for (DeviceArray<float>* each : {&coefficient_of, &made.coefficients_}) {
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<float>::Allocate(device, num_coefficients, each));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, 1, &made.num_segments_));
  int num_levels = 0;
  while (RunLength(num_levels) < num_ids) ++num_levels;
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<float>::Allocate(device, FirstPlace(num_ids, num_levels) * dim, &made.run_sums_));
  view.num_requests = num_requests;
  view.num_ids = num_ids;
  view.rows = made.rows_.data();
  view.begins = made.begins_.data();
  view.num_segments = made.num_segments_.data();
  view.gradients = made.gradients_.data();
  view.coefficients = made.coefficients_.data();
  view.run_sums = made.run_sums_.data();
  Launch(RowsKernel, BlocksFor(*device, num_ids), kBlock, device->stream(), view, parts,
         unsorted.data());
  Launch(BagsKernel, BlocksFor(*device, first_bags.back(), kBagLanes), kBlock, device->stream(),
         view, parts, bag_of.data(), coefficient_of.data());
  KERAS_SPARSE_RETURN_IF_ERROR(StableSort(unsorted.data(), num_ids, BitsOf(first_rows.back()),
                                          device, made.rows_.data(), places.data()));
  Launch(OrderKernel, BlocksFor(*device, num_ids), kBlock, device->stream(), view, parts,
         places.data(), bag_of.data(), coefficient_of.data(), made.gradients_.data(),
         made.coefficients_.data());
  KERAS_SPARSE_RETURN_IF_ERROR(
      FindRuns(made.rows_.data(), num_ids, device, made.begins_.data(), made.num_segments_.data()));
  for (int level = 0; level < num_levels; ++level) {
    const int64_t num_places = FirstPlace(num_ids, level + 1) - FirstPlace(num_ids, level);
    Launch(SumRunsKernel, BlocksFor(*device, num_places * dim), kBlock, device->stream(), view,
           level, num_places, dim);
  }
  if (num_levels > 0) {
    Launch(SumSegmentsKernel, BlocksFor(*device, num_ids / kGradientsPerRun * dim), kBlock,
           device->stream(), view, dim);
  }
  *segments = std::move(made);
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
