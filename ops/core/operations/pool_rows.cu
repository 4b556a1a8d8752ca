#include <map>
#include <tuple>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/device/tile_sum.h"
#include "ops/core/ids/check_bags.h"
#include "ops/core/operations/pool_rows.h"

namespace keras_sparse::cuda_impl {
namespace {

// Rows that a lane waits for at once.
constexpr int kRowsInFlight = 4;
// Lanes that multiply a row and a gradient.
constexpr int kDotLanes = 8;

template <int kFloats>
__device__ void StoreColumns(const OutputRows& rows, int64_t row, int64_t column,
                             const Floats<kFloats>& floats) {
  Store(rows.type, floats, static_cast<char*>(rows.Row(row)) + column * FloatBytes(rows.type));
}

// Reads rows. What each read needs is here, and not in memory that might have changed.
//   kIsDynamic  whether the table may be: initial rows take registers, which kernels of static
//               tables have for more lanes
template <bool kIsDynamic, int kFloats>
class RowReader {
 public:
  __device__ explicit RowReader(const IdRows& read)
      : read_(read), records_(read.table.records), dim_(read.table.dim), moved_(read.moved) {}

  // Of the row of the id at a place, what stands from one column on. An id that has none reads as
  // its table says.
  __device__ Floats<kFloats> Read(uint32_t row, int64_t at, int64_t column) const {
    if (row != kNoHbmRow) {
      return Load<kFloats>(moved_ == nullptr ? records_.Record(row) + column
                                             : moved_ + at * dim_ + column);
    }
    Floats<kFloats> floats = {};
    if constexpr (kIsDynamic) {
      if (!read_.table.is_dynamic) return floats;  // in a kernel for both
      const uint32_t cold_row = read_.cold_found == nullptr ? kNoHbmRow : read_.cold_found[at];
      if (cold_row != kNoHbmRow) return Load<kFloats>(read_.cold_rows + cold_row * dim_ + column);
      read_.table.default_rows.Fill(read_.ids[at], column, kFloats, floats.at);
    }
    return floats;
  }

 private:
  const IdRows& read_;
  const RecordsView records_;
  const int64_t dim_;
  const float* const moved_;
};

// The rows of the next ids, as far as there are any.
struct NextRows {
  uint32_t rows[kRowsInFlight] = {};

  __device__ void LoadFrom(const uint32_t* found, int64_t at, int64_t end) {
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (at + k < end) rows[k] = found[at + k];
    }
  }
};

// What a lane has of a bag, from one column on.
template <bool kIsDynamic, int kFloats>
__device__ Floats<kFloats> SumBag(const PoolRequest& request, const BagIds& ids, int64_t column) {
  const RowReader<kIsDynamic, kFloats> reader(request.read);
  const uint32_t* found = request.read.found;
  const float* weights = request.bags.weights;
  Floats<kFloats> sum = {};
  NextRows next;
  next.LoadFrom(found, ids.begin, ids.end);
  for (int64_t at = ids.begin; at < ids.end; at += kRowsInFlight) {
    Floats<kFloats> rows[kRowsInFlight] = {};
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (at + k < ids.end) rows[k] = reader.Read(next.rows[k], at + k, column);
    }
    next.LoadFrom(found, at + kRowsInFlight, ids.end);
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (at + k >= ids.end) continue;
      for (int f = 0; f < kFloats; ++f) {
        sum.at[f] += weights == nullptr ? rows[k].at[f] : weights[at + k] * rows[k].at[f];
      }
    }
  }
  return sum;
}

template <bool kIsDynamic, int kLanes, int kFloats>
__device__ void PoolBag(const PoolRequest& request, int64_t bag) {
  const Bags& bags = request.bags;
  const BagIds ids = {bags.row_splits[bag], bags.row_splits[bag + 1]};
  const int lane = Tile<kLanes>::Lane();
  if (!ids.AreSound(bags, bag)) {
    if (lane == 0) {
      atomicMin(&request.read.table.checks->refused_bag, static_cast<unsigned long long>(bag));
    }
    return;
  }
  const float scale = bags.Scale(bag);
  for (int64_t column = int64_t{lane} * kFloats; column < request.read.table.dim;
       column += kLanes * kFloats) {
    Floats<kFloats> floats = SumBag<kIsDynamic, kFloats>(request, ids, column);
    for (int f = 0; f < kFloats; ++f) floats.at[f] *= scale;
    StoreColumns(request.rows, bag, column, floats);
  }
}

// Ids without bags, as many as are in flight at once.
template <bool kIsDynamic, int kLanes, int kFloats>
__device__ void CopyRows(const PoolRequest& request, int64_t first) {
  const RowReader<kIsDynamic, kFloats> reader(request.read);
  const OutputRows to = request.rows;
  const int64_t dim = request.read.table.dim;
  const int64_t end = request.bags.num_ids;
  NextRows next;
  next.LoadFrom(request.read.found, first, end);
  for (int64_t column = int64_t{Tile<kLanes>::Lane()} * kFloats; column < dim;
       column += kLanes * kFloats) {
    Floats<kFloats> rows[kRowsInFlight] = {};
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (first + k < end) rows[k] = reader.Read(next.rows[k], first + k, column);
    }
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (first + k < end) StoreColumns(to, first + k, column, rows[k]);
    }
  }
}

// What a tile does at a time of a request: a bag, or kRowsInFlight ids without bags.
int64_t NumPieces(const Bags& bags) {
  if (bags.combiner != Combiner::kNone) return bags.num_bags;
  return (bags.num_ids + kRowsInFlight - 1) / kRowsInFlight;
}

template <bool kPools, bool kIsDynamic, int kLanes, int kFloats>
__global__ void PoolKernel(Requests<PoolRequest> requests) {
  const Parts& parts = requests.parts;
  for (int64_t i = Tile<kLanes>::Number(); i < parts.size(); i += Tile<kLanes>::Count()) {
    const int r = parts.Find(i);
    const PoolRequest& request = requests.requests[r];
    const int64_t piece = i - parts.firsts[r];
    if constexpr (kPools) {
      PoolBag<kIsDynamic, kLanes, kFloats>(request, piece);
    } else {
      CopyRows<kIsDynamic, kLanes, kFloats>(request, piece * kRowsInFlight);
    }
  }
}

__global__ void WeightsGradientKernel(Requests<WeightsRequest> requests) {
  using T = Tile<kDotLanes>;
  const Parts& parts = requests.parts;
  for (int64_t i = T::Number(); i < parts.size(); i += T::Count()) {
    const int r = parts.Find(i);
    const WeightsRequest& request = requests.requests[r];
    const RowReader<true, 1> reader(request.read);
    const GradientRows grads = request.output_grads;
    const int64_t bag = i - parts.firsts[r];
    const bool pools = request.bags.combiner != Combiner::kNone;
    const BagIds ids = pools
                           ? BagIds{request.bags.row_splits[bag], request.bags.row_splits[bag + 1]}
                           : BagIds{bag, bag + 1};
    for (int64_t at = ids.begin; at < ids.end; ++at) {
      const float dot = TileSum<kDotLanes>(request.read.table.dim, [&](int64_t column) {
        return reader.Read(request.read.found[at], at, column).at[0] *
               LoadAny<1>(grads.type, grads.Row(bag), column).at[0];
      });
      if (T::Lane() == 0) request.weight_grads[at] = dot;
    }
    if (T::Lane() == 0) request.bags.FinishWeightsGradient(bag, bag + 1, request.weight_grads);
  }
}

// Requests that a kernel does alike.
struct Kind {
  bool pools;
  bool is_dynamic;
  int lanes;   // of a bag
  int floats;  // of a lane

  bool operator<(const Kind& other) const {
    return std::tie(pools, is_dynamic, lanes, floats) <
           std::tie(other.pools, other.is_dynamic, other.lanes, other.floats);
  }
};

Kind KindOf(const PoolRequest& request) {
  const int64_t dim = request.read.table.dim;
  const bool pools = request.bags.combiner != Combiner::kNone;
  const bool is_dynamic = request.read.table.is_dynamic;
  if (!HasVectors(request.rows.data, request.rows.stride, dim, request.rows.type)) {
    return {pools, is_dynamic, kWarp, 1};
  }
  return {pools, is_dynamic, LanesOf(dim, kMaxLaneFloats), kMaxLaneFloats};
}

template <bool kPools, bool kIsDynamic>
auto PoolKernelOf(const Kind& kind) {
  if (kind.floats == 1) return PoolKernel<kPools, kIsDynamic, kWarp, 1>;
  switch (kind.lanes) {
    case 1:
      return PoolKernel<kPools, kIsDynamic, 1, kMaxLaneFloats>;
    case 2:
      return PoolKernel<kPools, kIsDynamic, 2, kMaxLaneFloats>;
    case 4:
      return PoolKernel<kPools, kIsDynamic, 4, kMaxLaneFloats>;
    case 8:
      return PoolKernel<kPools, kIsDynamic, 8, kMaxLaneFloats>;
    case 16:
      return PoolKernel<kPools, kIsDynamic, 16, kMaxLaneFloats>;
    default:
      return PoolKernel<kPools, kIsDynamic, kWarp, kMaxLaneFloats>;
  }
}

template <bool kPools>
auto PoolKernelOf(const Kind& kind) {
  return kind.is_dynamic ? PoolKernelOf<kPools, true>(kind) : PoolKernelOf<kPools, false>(kind);
}

}  // namespace

Status PoolRows(const std::vector<PoolRequest>& requests, Device* device) {
  std::map<Kind, std::vector<PoolRequest>> alike;
  for (PoolRequest request : requests) {
    request.rows = request.rows.Of(request.read.table.dim);
    alike[KindOf(request)].push_back(request);
  }
  for (const auto& [kind, group] : alike) {
    std::vector<int64_t> num_pieces;
    for (const PoolRequest& each : group) num_pieces.push_back(NumPieces(each.bags));
    RequestsOnDevice<PoolRequest> on_device;
    KERAS_SPARSE_RETURN_IF_ERROR(
        RequestsOnDevice<PoolRequest>::Copy(device, group, num_pieces, &on_device));
    Launch(kind.pools ? PoolKernelOf<true>(kind) : PoolKernelOf<false>(kind),
           BlocksFor(*device, on_device.size(), kind.lanes), kBlock, device->stream(),
           on_device.view());
  }
  return Status::Ok();
}

Status WeightsGradient(const std::vector<WeightsRequest>& requests, Device* device) {
  std::vector<WeightsRequest> with_strides = requests;
  std::vector<int64_t> num_bags;
  for (WeightsRequest& each : with_strides) {
    each.output_grads = each.output_grads.Of(each.read.table.dim);
    num_bags.push_back(each.bags.num_bags);
  }
  RequestsOnDevice<WeightsRequest> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(
      RequestsOnDevice<WeightsRequest>::Copy(device, with_strides, num_bags, &on_device));
  Launch(WeightsGradientKernel, BlocksFor(*device, on_device.size(), kDotLanes), kBlock,
         device->stream(), on_device.view());
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
