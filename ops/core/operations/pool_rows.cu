#include <map>
#include <utility>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/device/tile_sum.h"
#include "ops/core/operations/pool_rows.h"

namespace keras_sparse::cuda_impl {
namespace {

// Rows that a lane waits for at once.
constexpr int kRowsInFlight = 4;
// Lanes that multiply a row and a gradient.
constexpr int kDotLanes = 8;

// The ids of a bag.
struct Span {
  int64_t begin;
  int64_t end;
};

__device__ Span IdsOf(const Bags& bags, int64_t bag) {
  if (bags.combiner == Combiner::kNone) return {bag, bag + 1};
  return {bags.row_splits[bag], bags.row_splits[bag + 1]};
}

// Whether the splits at a bag are as Bags::Check asks, seen from there.
__device__ bool IsSound(const Bags& bags, int64_t bag, const Span& ids) {
  const bool begins = bag > 0 || ids.begin == 0;
  const bool ends = bag + 1 < bags.num_bags || ids.end == bags.num_ids;
  return begins && ends && ids.begin >= 0 && ids.begin <= ids.end && ids.end <= bags.num_ids;
}

// Of the row of the id at a place, what stands from one column on. An id that has none reads as its
// table says.
template <int kFloats>
__device__ Floats<kFloats> ReadRow(const IdRows& read, int64_t at, int64_t column) {
  const uint32_t row = read.found[at];
  if (row != kNoHbmRow) {
    return Load<kFloats>(read.moved == nullptr ? read.table.records.Record(row) + column
                                               : read.moved + at * read.table.dim + column);
  }
  Floats<kFloats> floats = {};
  if (read.table.is_dynamic) {
    read.table.default_rows.Fill(read.ids[at], column, kFloats, floats.at);
  }
  return floats;
}

// What a lane has of a bag, from one column on.
template <int kFloats>
__device__ Floats<kFloats> SumBag(const PoolRequest& request, const Span& ids, int64_t column) {
  const float* weights = request.bags.weights;
  Floats<kFloats> sum = {};
  for (int64_t at = ids.begin; at < ids.end; at += kRowsInFlight) {
    Floats<kFloats> rows[kRowsInFlight] = {};
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (at + k >= ids.end) continue;
      rows[k] = ReadRow<kFloats>(request.read, at + k, column);
    }
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (at + k >= ids.end) continue;
      for (int f = 0; f < kFloats; ++f) {
        sum.at[f] += weights == nullptr ? rows[k].at[f] : weights[at + k] * rows[k].at[f];
      }
    }
  }
  return sum;
}

template <int kLanes, int kFloats>
__device__ void PoolBag(const PoolRequest& request, int64_t bag) {
  const Bags& bags = request.bags;
  const Span ids = IdsOf(bags, bag);
  const int lane = Tile<kLanes>::Lane();
  if (!IsSound(bags, bag, ids)) {
    if (lane == 0) {
      atomicMin(&request.read.table.checks->refused_bag, static_cast<unsigned long long>(bag));
    }
    return;
  }
  const bool pools = bags.combiner != Combiner::kNone;
  const float scale = bags.Scale(bag);
  const int64_t bytes = FloatBytes(request.rows.type);
  for (int64_t column = int64_t{lane} * kFloats; column < request.read.table.dim;
       column += kLanes * kFloats) {
    Floats<kFloats> floats = {};
    if (pools) {
      floats = SumBag<kFloats>(request, ids, column);
      for (int f = 0; f < kFloats; ++f) floats.at[f] *= scale;
    } else {
      floats = ReadRow<kFloats>(request.read, bag, column);
    }
    Store(request.rows.type, floats, static_cast<char*>(request.rows.Row(bag)) + column * bytes);
  }
}

template <int kLanes, int kFloats>
__global__ void PoolKernel(Requests<PoolRequest> requests) {
  const Parts& parts = requests.parts;
  for (int64_t i = Tile<kLanes>::Number(); i < parts.size(); i += Tile<kLanes>::Count()) {
    const int r = parts.Find(i);
    PoolBag<kLanes, kFloats>(requests.requests[r], i - parts.firsts[r]);
  }
}

__global__ void WeightsGradientKernel(Requests<WeightsRequest> requests) {
  using T = Tile<kDotLanes>;
  const Parts& parts = requests.parts;
  for (int64_t i = T::Number(); i < parts.size(); i += T::Count()) {
    const int r = parts.Find(i);
    const WeightsRequest& request = requests.requests[r];
    const int64_t bag = i - parts.firsts[r];
    const Span ids = IdsOf(request.bags, bag);
    for (int64_t at = ids.begin; at < ids.end; ++at) {
      const float dot = TileSum<kDotLanes>(request.read.table.dim, [&](int64_t column) {
        const GradientRows& grads = request.output_grads;
        return ReadRow<1>(request.read, at, column).at[0] *
               LoadAny<1>(grads.type, grads.Row(bag), column).at[0];
      });
      if (T::Lane() == 0) request.weight_grads[at] = dot;
    }
    if (T::Lane() == 0) request.bags.FinishWeightsGradient(bag, bag + 1, request.weight_grads);
  }
}

template <typename Request>
Status CopyRequests(Device* device, const std::vector<Request>& requests,
                    RequestsOnDevice<Request>* to) {
  std::vector<int64_t> num_bags;
  for (const Request& each : requests) num_bags.push_back(each.bags.num_bags);
  return RequestsOnDevice<Request>::Copy(device, requests, num_bags, to);
}

template <int kFloats>
auto PoolKernelOf(int lanes) {
  switch (lanes) {
    case 1:
      return PoolKernel<1, kFloats>;
    case 2:
      return PoolKernel<2, kFloats>;
    case 4:
      return PoolKernel<4, kFloats>;
    case 8:
      return PoolKernel<8, kFloats>;
    case 16:
      return PoolKernel<16, kFloats>;
    default:
      return PoolKernel<kWarp, kFloats>;
  }
}

}  // namespace

Status PoolRows(const std::vector<PoolRequest>& requests, Device* device) {
  // Those that a kernel does alike, together: lanes of a bag, and floats of a lane.
  std::map<std::pair<int, int>, std::vector<PoolRequest>> alike;
  for (PoolRequest request : requests) {
    const int64_t dim = request.read.table.dim;
    request.rows = request.rows.Of(dim);
    const bool has_vectors =
        HasVectors(request.rows.data, request.rows.stride, dim, request.rows.type);
    const int floats = has_vectors ? kMaxLaneFloats : 1;
    alike[{LanesOf(dim, floats), floats}].push_back(request);
  }
  for (const auto& [kind, group] : alike) {
    const auto [lanes, floats] = kind;
    RequestsOnDevice<PoolRequest> on_device;
    KERAS_SPARSE_RETURN_IF_ERROR(CopyRequests(device, group, &on_device));
    Launch(floats == 1 ? PoolKernelOf<1>(lanes) : PoolKernelOf<kMaxLaneFloats>(lanes),
           BlocksFor(*device, on_device.size(), lanes), kBlock, device->stream(), on_device.view());
  }
  return Status::Ok();
}

Status WeightsGradient(const std::vector<WeightsRequest>& requests, Device* device) {
  std::vector<WeightsRequest> with_strides = requests;
  for (WeightsRequest& each : with_strides) {
    each.output_grads = each.output_grads.Of(each.read.table.dim);
  }
  RequestsOnDevice<WeightsRequest> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(CopyRequests(device, with_strides, &on_device));
  Launch(WeightsGradientKernel, BlocksFor(*device, on_device.size(), kDotLanes), kBlock,
         device->stream(), on_device.view());
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
