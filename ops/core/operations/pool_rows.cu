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

// The row of an id, or null if it is outside. That is reported once, by one lane.
__device__ const float* FindRow(const PoolTable& table, const int64_t* ids, int64_t at,
                                bool reports) {
  const int64_t id = ids[at];
  if (id >= 0 && id < table.records.num_rows) {
    return table.records.Record(static_cast<uint32_t>(id));
  }
  if (reports && table.outside_is_zero) atomicAdd(&table.checks->num_outside, 1ull);
  if (reports && !table.outside_is_zero) {
    atomicMin(&table.checks->refused_place, static_cast<unsigned long long>(at));
  }
  return nullptr;
}

// What a lane has of a bag, from one column on.
template <int kFloats>
__device__ Floats<kFloats> SumBag(const PoolRequest& request, const Span& ids, int64_t column,
                                  bool reports) {
  const float* weights = request.bags.weights;
  Floats<kFloats> sum = {};
  for (int64_t at = ids.begin; at < ids.end; at += kRowsInFlight) {
    Floats<kFloats> rows[kRowsInFlight] = {};
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (at + k >= ids.end) continue;
      const float* row = FindRow(request.table, request.ids, at + k, reports);
      if (row != nullptr) rows[k] = Load<kFloats>(row + column);
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
      atomicMin(&request.table.checks->refused_bag, static_cast<unsigned long long>(bag));
    }
    return;
  }
  const bool pools = bags.combiner != Combiner::kNone;
  const float scale = bags.Scale(bag);
  const int64_t bytes = FloatBytes(request.rows.type);
  for (int64_t column = int64_t{lane} * kFloats; column < request.table.dim;
       column += kLanes * kFloats) {
    Floats<kFloats> floats = {};
    if (pools) {
      floats = SumBag<kFloats>(request, ids, column, column == 0);
      for (int f = 0; f < kFloats; ++f) floats.at[f] *= scale;
    } else {
      const float* row = FindRow(request.table, request.ids, bag, column == 0);
      if (row != nullptr) floats = Load<kFloats>(row + column);
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

// The id of a refused place, once all lanes have seen theirs. By one lane: a table may be asked
// twice, and of both the first counts.
__global__ void NameRefusedKernel(Requests<PoolRequest> requests) {
  for (int r = requests.parts.num_parts - 1; r >= 0; --r) {
    const PoolRequest& request = requests.requests[r];
    request.table.checks->NameRefused(request.ids, request.bags.num_ids,
                                      request.table.records.num_rows);
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
      const float* row = FindRow(request.table, request.ids, at, false);
      const float dot = TileSum<kDotLanes>(request.table.dim, [&](int64_t column) {
        const GradientRows& grads = request.output_grads;
        return (row == nullptr ? 0 : row[column]) *
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
    const int64_t dim = request.table.dim;
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
    Launch(NameRefusedKernel, 1, 1, device->stream(), on_device.view());
  }
  return Status::Ok();
}

Status WeightsGradient(const std::vector<WeightsRequest>& requests, Device* device) {
  std::vector<WeightsRequest> with_strides = requests;
  for (WeightsRequest& each : with_strides) {
    each.output_grads = each.output_grads.Of(each.table.dim);
  }
  RequestsOnDevice<WeightsRequest> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(CopyRequests(device, with_strides, &on_device));
  Launch(WeightsGradientKernel, BlocksFor(*device, on_device.size(), kDotLanes), kBlock,
         device->stream(), on_device.view());
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
