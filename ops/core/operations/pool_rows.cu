#include <map>

#include "ops/core/device/device_code.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/device/tile_sum.h"
#include "ops/core/ids/check_bags.h"
#include "ops/core/ids/pool_kernel.h"
#include "ops/core/operations/pool_rows.h"

namespace keras_sparse::cuda_impl {
namespace {

// Reads rows. Holds what each read needs, instead of reading it from memory that might change.
//   kIsDynamic  whether the table may be dynamic: initial rows need registers, which kernels for
//               static tables use for more lanes
template <bool kIsDynamic, int kFloats>
class RowReader {
 public:
  __device__ explicit RowReader(const IdRows& read)
      : read_(read),
        records_(read.table.records),
        dim_(read.table.dim),
        type_(read.table.row_type),
        moved_(read.moved) {}

  // Returns the floats from `column` on of the row of id number `at`. An id without a row reads as
  // its table's default.
  __device__ Floats<kFloats> Read(uint32_t row, int64_t at, int64_t column) const {
    if (row != kNoHbmRow) {
      return moved_ == nullptr ? LoadAny<kFloats>(type_, records_.Record(row), column)
                               : LoadAny<kFloats>(type_, moved_, at * dim_ + column);
    }
    Floats<kFloats> floats = {};
    if constexpr (kIsDynamic) {
      if (!read_.table.owned.is_dynamic()) return floats;  // in a kernel for both kinds of table
      const uint32_t cold_row = read_.cold_found == nullptr ? kNoHbmRow : read_.cold_found[at];
      if (cold_row != kNoHbmRow) {
        return LoadAny<kFloats>(type_, read_.cold_rows, cold_row * dim_ + column);
      }
      read_.table.default_rows.Fill(read_.ids[at], column, kFloats, floats.at);
      Round(type_, &floats);
    }
    return floats;
  }

 private:
  const IdRows& read_;
  const RecordsView records_;
  const int64_t dim_;
  const FloatType type_;
  const void* const moved_;
};

template <int kFloats>
using StaticReader = RowReader<false, kFloats>;
template <int kFloats>
using AnyReader = RowReader<true, kFloats>;

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
    if (pools && !ids.AreSound(request.bags, bag)) continue;  // which the lookup has refused
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

}  // namespace

Status PoolRows(const std::vector<PoolRequest>& requests, Device* device) {
  std::map<PoolKind, std::vector<PoolRequest>> alike;
  for (PoolRequest request : requests) {
    request.rows = request.rows.Of(request.read.dim());
    const int is_dynamic = request.read.table.owned.is_dynamic() ? 1 : 0;
    alike[PoolKind::Of(request, is_dynamic, true)].push_back(request);
  }
  return LaunchPools(
      alike,
      [](const PoolKind& kind) {
        return kind.reader == 1 ? PoolKernelOf<AnyReader, PoolRequest>(kind)
                                : PoolKernelOf<StaticReader, PoolRequest>(kind);
      },
      device);
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
