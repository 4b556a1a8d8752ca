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
// Columns of a long segment that a block sums, and gradients that it loads at a time, by these
// lanes, with two more warps.
constexpr int kLongColumns = 16;
constexpr int kLongIds = 256;
constexpr int kLoaders = 256;
constexpr int kLongBlock = kLoaders + 2 * kWarp;

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

// Finds the segments of more than kLongSegment ids, in any order.
__global__ void FindLongKernel(SegmentsView view, uint32_t* segments, uint32_t* num_segments) {
  for (int64_t i = LaneOfKernel(); i < int64_t{*view.num_segments}; i += LanesOfKernel()) {
    const Segment segment = SegmentAt(view, i);
    if (segment.end - segment.begin <= kLongSegment) continue;
    if (RequestOf(view, segment.row) == view.num_requests) continue;
    segments[atomicAdd(num_segments, 1u)] = static_cast<uint32_t>(i);
  }
}

// Gradients of a long segment that are being summed, by chunk: each chunk reuses the memory of the
// one before the last.
struct LongChunks {
  const void* rows[2][kLongIds];  // where gradients are
  float coefficients[2][kLongIds];
  float gradients[2][kLongIds][kLongColumns];
};

// Some columns of a long segment. Holds values that are read repeatedly, instead of reading them
// from memory that might change.
struct LongPiece {
  FloatType type;
  bool counts_once;
  int num_columns;
  int64_t first_column;
  int64_t begin;  // of the segment
  int64_t end;

  __device__ LongPiece(const SegmentsView& view, const Segment& segment, int64_t column)
      : LongPiece(view, segment, column, RequestOf(view, segment.row)) {}
  __device__ LongPiece(const SegmentsView& view, const Segment& segment, int64_t column,
                       int request)
      : type(view.requests[request].gradient.grads.type),
        counts_once(view.count_once[request] != 0),
        num_columns(static_cast<int>(view.requests[request].gradient.dim - column)),
        first_column(column),
        begin(segment.begin),
        end(segment.end) {}

  __device__ int64_t num_chunks() const { return (end - begin + kLongIds - 1) / kLongIds; }
  __device__ int64_t FirstOf(int64_t chunk) const { return begin + chunk * kLongIds; }
  // Returns the number of ids in a chunk; 0 if there is no such chunk.
  __device__ int SizeOf(int64_t chunk) const {
    if (chunk < 0 || chunk >= num_chunks()) return 0;
    const int64_t left = end - FirstOf(chunk);
    return static_cast<int>(left < kLongIds ? left : kLongIds);
  }
  __device__ bool HasColumn(int column) const {
    return column < kLongColumns && column < num_columns;
  }
};

// For a warp: finds the gradients of a chunk, all at once.
template <bool kCountsOnce>
__device__ void FindChunk(const SegmentsView& view, const LongPiece& piece, int64_t chunk,
                          LongChunks* chunks) {
  constexpr int kLoads = kLongIds / kWarp;
  const int64_t half = chunk & 1;
  const int size = piece.SizeOf(chunk);
  const void* rows[kLoads] = {};
  float coefficients[kLoads] = {};
  for (int k = 0; k < kLoads; ++k) {
    const int i = k * kWarp + Tile<kWarp>::Lane();
    if (i >= size) continue;
    rows[k] = view.gradients[piece.FirstOf(chunk) + i];
    if (!kCountsOnce) coefficients[k] = view.coefficients[piece.FirstOf(chunk) + i];
  }
  for (int k = 0; k < kLoads; ++k) {
    const int i = k * kWarp + Tile<kWarp>::Lane();
    if (i >= size) continue;
    chunks->rows[half][i] = rows[k];
    if (!kCountsOnce) chunks->coefficients[half][i] = coefficients[k];
  }
}

// For kLoaders lanes: loads the gradients of a chunk that was found, all at once.
template <bool kAreFloats>
__device__ void LoadChunk(const LongPiece& piece, int64_t chunk, int lane, LongChunks* chunks) {
  constexpr int kStep = kLoaders / kLongColumns;
  constexpr int kLoads = kLongIds / kStep;
  const int64_t half = chunk & 1;
  const int column = lane % kLongColumns;
  const int first_id = lane / kLongColumns;
  if (!piece.HasColumn(column)) return;
  const int size = piece.SizeOf(chunk);
  float loaded[kLoads] = {};
  for (int k = 0; k < kLoads; ++k) {
    const int id = first_id + k * kStep;
    if (id >= size) continue;
    loaded[k] =
        LoadOf<kAreFloats, 1>(piece.type, chunks->rows[half][id], piece.first_column + column)
            .at[0];
  }
  for (int k = 0; k < kLoads; ++k) {
    const int id = first_id + k * kStep;
    if (id >= size) continue;
    chunks->gradients[half][id][column] =
        piece.counts_once ? loaded[k] : chunks->coefficients[half][id] * loaded[k];
  }
}

// For a warp: adds a chunk's gradients in order, one lane per column.
__device__ void AddChunk(const LongPiece& piece, int64_t chunk, const LongChunks& chunks,
                         float* sum) {
  constexpr int kLoads = 16;
  const int lane = Tile<kWarp>::Lane();
  if (!piece.HasColumn(lane)) return;
  const int size = piece.SizeOf(chunk);
  for (int first = 0; first < size; first += kLoads) {
    float gradients[kLoads] = {};
    for (int k = 0; k < kLoads; ++k) gradients[k] = chunks.gradients[chunk & 1][first + k][lane];
    for (int k = 0; k < kLoads; ++k) {
      if (first + k < size) *sum += gradients[k];
    }
  }
}

// For a block: sums kLongColumns columns of a long segment. One warp adds a chunk of gradients in
// order, while others load the next chunk, and one warp finds the chunk after that.
__device__ void SumLong(const SegmentsView& view, const LongPiece& piece, float* to) {
  LongChunks& chunks = SharedOfBlock<LongChunks>();
  const int lane = static_cast<int>(threadIdx.x);
  const bool are_floats = piece.type == FloatType::kFloat32;
  float sum = kEmptySum;
  for (int64_t chunk = -2; chunk < piece.num_chunks(); ++chunk) {
    if (lane < kLoaders) {
      are_floats ? LoadChunk<true>(piece, chunk + 1, lane, &chunks)
                 : LoadChunk<false>(piece, chunk + 1, lane, &chunks);
    } else if (lane < kLoaders + kWarp) {
      piece.counts_once ? FindChunk<true>(view, piece, chunk + 2, &chunks)
                        : FindChunk<false>(view, piece, chunk + 2, &chunks);
    } else {
      AddChunk(piece, chunk, chunks, &sum);
    }
    __syncthreads();
  }
  if (lane < kLoaders + kWarp || !piece.HasColumn(Tile<kWarp>::Lane())) return;
  to[piece.first_column + Tile<kWarp>::Lane()] = sum;
}

// Among kLongSegment consecutive ids, at most one longer segment begins: the last.
__global__ void LongSegmentsKernel(SegmentsView view, const uint32_t* segments,
                                   const uint32_t* num_segments, int64_t dim, float* sums) {
  const int64_t pieces = (dim + kLongColumns - 1) / kLongColumns;
  for (int64_t i = blockIdx.x; i < int64_t{*num_segments} * pieces; i += gridDim.x) {
    const Segment segment = SegmentAt(view, segments[i / pieces]);
    SumLong(view, LongPiece(view, segment, i % pieces * kLongColumns),
            sums + segment.begin / kLongSegment * dim);
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
  DeviceArray<int64_t> ids;
  DeviceArray<int64_t> bags;
  DeviceArray<uint32_t> unsorted;
  DeviceArray<uint32_t> places;
  DeviceArray<uint32_t> bag_of;
  DeviceArray<float> coefficient_of;
  DeviceArray<uint32_t> long_segments;
  DeviceArray<uint32_t> num_long;
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<SegmentRequest>::Copy(device, requests, &made.requests_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint8_t>::Copy(device, count_once, &made.count_once_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Copy(device, first_rows, &made.first_rows_));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Copy(device, first_ids, &ids));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<int64_t>::Copy(device, first_bags, &bags));
  for (DeviceArray<uint32_t>* each : {&unsorted, &places, &bag_of, &made.rows_, &made.begins_}) {
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, num_ids, each));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<const void*>::Allocate(device, num_ids, &made.gradients_));
  for (DeviceArray<float>* each : {&coefficient_of, &made.coefficients_}) {
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<float>::Allocate(device, num_coefficients, each));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device, 1, &made.num_segments_));
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<uint32_t>::Allocate(device, num_ids / kLongSegment, &long_segments));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Copy(device, {0}, &num_long));
  KERAS_SPARSE_RETURN_IF_ERROR(
      DeviceArray<float>::Allocate(device, (num_ids / kLongSegment + 1) * dim, &made.long_sums_));
  made.view_ = {made.requests_.data(),
                made.count_once_.data(),
                made.first_rows_.data(),
                num_requests,
                num_ids,
                made.rows_.data(),
                made.begins_.data(),
                made.num_segments_.data(),
                made.gradients_.data(),
                made.coefficients_.data(),
                made.long_sums_.data()};
  const RequestParts parts = {{ids.data(), num_requests}, {bags.data(), num_requests}};
  Launch(RowsKernel, BlocksFor(*device, num_ids), kBlock, device->stream(), made.view_, parts,
         unsorted.data());
  Launch(BagsKernel, BlocksFor(*device, first_bags.back(), kBagLanes), kBlock, device->stream(),
         made.view_, parts, bag_of.data(), coefficient_of.data());
  KERAS_SPARSE_RETURN_IF_ERROR(StableSort(unsorted.data(), num_ids, BitsOf(first_rows.back()),
                                          device, made.rows_.data(), places.data()));
  Launch(OrderKernel, BlocksFor(*device, num_ids), kBlock, device->stream(), made.view_, parts,
         places.data(), bag_of.data(), coefficient_of.data(), made.gradients_.data(),
         made.coefficients_.data());
  KERAS_SPARSE_RETURN_IF_ERROR(
      FindRuns(made.rows_.data(), num_ids, device, made.begins_.data(), made.num_segments_.data()));
  if (num_ids > kLongSegment) {
    Launch(FindLongKernel, BlocksFor(*device, num_ids), kBlock, device->stream(), made.view_,
           long_segments.data(), num_long.data());
    Launch(LongSegmentsKernel, device->num_blocks(), kLongBlock, device->stream(), made.view_,
           long_segments.data(), num_long.data(), dim, made.long_sums_.data());
  }
  *segments = std::move(made);
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
