// Kernels that pool rows, for any reader of rows.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_POOL_KERNEL_H_
#define KERAS_SPARSE_OPS_CORE_IDS_POOL_KERNEL_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/ids/bags.h"
#include "ops/core/ids/check_bags.h"
#include "ops/core/ids/pooled_rows.h"
#include "ops/core/math/strided_rows.h"

namespace keras_sparse::cuda_impl {

// Lanes that multiply a row and a gradient.
constexpr int kDotLanes = 8;

// A reader of kFloats columns, Reader<kFloats>, is constructed from the input of a request
// (PooledRows), and has
//   Read(found, place, column)  the row of the id at a position, starting with a column

// Rows that a lane loads at once.
constexpr int kRowsInFlight = 4;

template <int kFloats>
__device__ void StoreColumns(const OutputRows& rows, int64_t row, int64_t column,
                             const Floats<kFloats>& floats) {
  Store(rows.type, floats, static_cast<char*>(rows.Row(row)) + column * FloatBytes(rows.type));
}

// The rows of the next ids, if there are any.
struct NextRows {
  uint32_t rows[kRowsInFlight] = {};

  __device__ void LoadFrom(const uint32_t* found, int64_t at, int64_t end) {
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (at + k < end) rows[k] = found[at + k];
    }
  }
};

// Returns a lane's part of a bag's sum, starting with a column.
template <template <int> class Reader, int kFloats, typename Request>
__device__ Floats<kFloats> SumBag(const Request& request, const BagIds& ids, int64_t column) {
  const Reader<kFloats> reader(request.read);
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

template <template <int> class Reader, int kLanes, int kFloats, typename Request>
__device__ void PoolBag(const Request& request, int64_t bag) {
  const Bags& bags = request.bags;
  const BagIds ids = {bags.row_splits[bag], bags.row_splits[bag + 1]};
  const int lane = Tile<kLanes>::Lane();
  if (!ids.AreSound(bags, bag)) {
    unsigned long long* refused = request.read.refused_bag();
    if (lane == 0 && refused != nullptr) atomicMin(refused, static_cast<unsigned long long>(bag));
    return;
  }
  const float scale = bags.Scale(bag);
  for (int64_t column = int64_t{lane} * kFloats; column < request.read.dim();
       column += kLanes * kFloats) {
    auto floats = SumBag<Reader, kFloats>(request, ids, column);
    for (int f = 0; f < kFloats; ++f) floats.at[f] *= scale;
    StoreColumns(request.rows, bag, column, floats);
  }
}

// Copies the rows of ids without bags, as many as are in flight at once.
template <template <int> class Reader, int kLanes, int kFloats, typename Request>
__device__ void CopyRows(const Request& request, int64_t first) {
  const Reader<kFloats> reader(request.read);
  const OutputRows to = request.rows;
  const int64_t dim = request.read.dim();
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

template <bool kPools, template <int> class Reader, int kLanes, int kFloats, typename Request>
__global__ void PoolKernel(Requests<Request> requests) {
  const Parts& parts = requests.parts;
  for (int64_t i = Tile<kLanes>::Number(); i < parts.size(); i += Tile<kLanes>::Count()) {
    const int r = parts.Find(i);
    const Request& request = requests.requests[r];
    const int64_t piece = i - parts.firsts[r];
    if constexpr (kPools) {
      PoolBag<Reader, kLanes, kFloats>(request, piece);
    } else {
      CopyRows<Reader, kLanes, kFloats>(request, piece * kRowsInFlight);
    }
  }
}

// Returns the number of a request's pieces; a piece is a bag, or kRowsInFlight ids without bags.
inline int64_t NumPieces(const Bags& bags) {
  if (bags.combiner != Combiner::kNone) return bags.num_bags;
  return (bags.num_ids + kRowsInFlight - 1) / kRowsInFlight;
}

// The kind of requests that one kernel can process together.
struct PoolKind {
  bool pools;
  int reader;  // any number, equal for requests that are read alike
  int lanes;   // per bag
  int floats;  // per lane

  // Returns the kind of a request, whose rows can be read as vectors if `reads_vectors`.
  template <typename Request>
  static PoolKind Of(const Request& request, int reader, bool reads_vectors) {
    const int64_t dim = request.read.dim();
    const OutputRows& rows = request.rows;
    const bool pools = request.bags.combiner != Combiner::kNone;
    if (!reads_vectors || !HasVectors(rows.data, rows.stride, dim, rows.type)) {
      return {pools, reader, kWarp, 1};
    }
    return {pools, reader, LanesOf(dim, kMaxLaneFloats), kMaxLaneFloats};
  }
  bool operator<(const PoolKind& other) const {
    return std::tie(pools, reader, lanes, floats) <
           std::tie(other.pools, other.reader, other.lanes, other.floats);
  }
};

template <bool kPools, template <int> class Reader, typename Request>
auto PoolKernelOf(const PoolKind& kind) {
  if (kind.floats == 1) return PoolKernel<kPools, Reader, kWarp, 1, Request>;
  switch (kind.lanes) {
    case 1:
      return PoolKernel<kPools, Reader, 1, kMaxLaneFloats, Request>;
    case 2:
      return PoolKernel<kPools, Reader, 2, kMaxLaneFloats, Request>;
    case 4:
      return PoolKernel<kPools, Reader, 4, kMaxLaneFloats, Request>;
    case 8:
      return PoolKernel<kPools, Reader, 8, kMaxLaneFloats, Request>;
    case 16:
      return PoolKernel<kPools, Reader, 16, kMaxLaneFloats, Request>;
    default:
      return PoolKernel<kPools, Reader, kWarp, kMaxLaneFloats, Request>;
  }
}

template <template <int> class Reader, typename Request>
auto PoolKernelOf(const PoolKind& kind) {
  return kind.pools ? PoolKernelOf<true, Reader, Request>(kind)
                    : PoolKernelOf<false, Reader, Request>(kind);
}

// Enqueues one kernel on the device for the requests of each kind.
//   kernel_of(kind)  returns PoolKernelOf of its reader
template <typename Request, typename KernelOf>
Status LaunchPools(const std::map<PoolKind, std::vector<Request>>& requests,
                   const KernelOf& kernel_of, Device* device) {
  for (const auto& [kind, group] : requests) {
    std::vector<int64_t> num_pieces;
    for (const Request& each : group) num_pieces.push_back(NumPieces(each.bags));
    RequestsOnDevice<Request> on_device;
    KERAS_SPARSE_RETURN_IF_ERROR(
        RequestsOnDevice<Request>::Copy(device, group, num_pieces, &on_device));
    Launch(kernel_of(kind), BlocksFor(*device, on_device.size(), kind.lanes), kBlock,
           device->stream(), on_device.view());
  }
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_IDS_POOL_KERNEL_H_
