#include <map>

#include "ops/core/device/arrays_on_device.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/device/tile_sum.h"
#include "ops/core/exchange/combine_rows.h"
#include "ops/core/exchange/inputs_on_device.h"
#include "ops/core/exchange/response_view.h"
#include "ops/core/ids/pool_kernel.h"

namespace keras_sparse::cuda_impl {
namespace {

// The data that an input reads for some columns.
struct ReplyRead {
  ResponseView reply;
  const uint32_t* found;  // (num_ids) reply rows

  KERAS_SPARSE_HOST_DEVICE int64_t dim() const { return reply.num_columns; }
  KERAS_SPARSE_HOST_DEVICE unsigned long long* refused_bag() const { return nullptr; }
};

using CombineRequest = PooledRows<ReplyRead>;

template <int kFloats>
class ReplyReader {
 public:
  __device__ explicit ReplyReader(const ReplyRead& read) : reply_(read.reply) {}

  __device__ Floats<kFloats> Read(uint32_t row, int64_t, int64_t column) const {
    const ResponseRun& run = reply_.Run(row);
    return LoadAny<kFloats>(run.type, run.Row(row, reply_.num_columns), column);
  }

 private:
  const ResponseView reply_;
};

// The weights of an input.
struct ReplyWeights {
  const ResponseView* replies;  // (num_replies) all columns of its table
  int num_replies;
  const uint32_t* positions;
  Bags bags;
  GradientRows output_grads;
  float* weight_grads;
};

// Returns the product of a row and the gradient of its bag, piece by piece as on the CPU.
template <int kLanes>
__device__ float DotOf(const ReplyWeights& request, uint32_t position, int64_t bag) {
  const GradientRows grads = request.output_grads;
  float sum = 0;
  for (int p = 0; p < request.num_replies; ++p) {
    const ResponseView reply = request.replies[p];
    const FloatType type = reply.Run(position).type;
    const char* row = reply.Run(position).Row(position, reply.num_columns);
    sum += TileSum<kLanes>(reply.num_columns, [&](int64_t column) {
      return LoadAny<1>(type, row, column).at[0] *
             LoadAny<1>(grads.type, grads.Row(bag), reply.first_column + column).at[0];
    });
  }
  return sum;
}

__global__ void CombineWeightsKernel(Requests<ReplyWeights> requests) {
  using T = Tile<kDotLanes>;
  const Parts& parts = requests.parts;
  for (int64_t i = T::Number(); i < parts.size(); i += T::Count()) {
    const int r = parts.Find(i);
    const ReplyWeights& request = requests.requests[r];
    const int64_t bag = i - parts.firsts[r];
    const Bags& bags = request.bags;
    for (int64_t at = bags.row_splits[bag]; at < bags.row_splits[bag + 1]; ++at) {
      const float dot = DotOf<kDotLanes>(request, request.positions[at], bag);
      if (T::Lane() == 0) request.weight_grads[at] = dot;
    }
    if (T::Lane() == 0) bags.FinishWeightsGradient(bag, bag + 1, request.weight_grads);
  }
}

}  // namespace

Status CombineRows(const ExchangeLayout& layout,
                   const std::vector<std::vector<ResponseColumns>>& columns,
                   const std::vector<CombinedInput>& inputs, const std::vector<OutputRows>& outputs,
                   Device* device) {
  InputsOnDevice on_device;
  ResponsesOnDevice replies;
  KERAS_SPARSE_RETURN_IF_ERROR(on_device.Copy(inputs, device));
  KERAS_SPARSE_RETURN_IF_ERROR(ResponsesOnDevice::Copy(columns, device, &replies));
  std::map<PoolKind, std::vector<CombineRequest>> alike;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const CombinedInput& input = on_device.inputs()[i];
    const OutputRows output = outputs[i].Of(layout.tables[input.table].dim);
    for (const ResponseView& reply : replies.views(input.table)) {
      const CombineRequest request = {
          {reply, input.positions}, input.bags, output.From(reply.first_column)};
      alike[PoolKind::Of(request, 0, reply.has_vectors)].push_back(request);
    }
  }
  return LaunchPools(
      alike, [](const PoolKind& kind) { return PoolKernelOf<ReplyReader, CombineRequest>(kind); },
      device);
}

Status CombineWeightsGradient(const ExchangeLayout& layout,
                              const std::vector<std::vector<ResponseColumns>>& columns,
                              const std::vector<CombinedInput>& inputs,
                              const std::vector<GradientRows>& output_grads,
                              const std::vector<float*>& weight_grads, Device* device) {
  InputsOnDevice on_device;
  ResponsesOnDevice replies;
  KERAS_SPARSE_RETURN_IF_ERROR(on_device.Copy(inputs, device));
  KERAS_SPARSE_RETURN_IF_ERROR(ResponsesOnDevice::Copy(columns, device, &replies));
  ArraysOnDevice views;
  std::vector<ReplyWeights> requests;
  std::vector<int64_t> num_bags;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const CombinedInput& input = on_device.inputs()[i];
    const std::vector<ResponseView>& of_table = replies.views(input.table);
    requests.push_back({of_table.data(), static_cast<int>(of_table.size()), input.positions,
                        input.bags, output_grads[i].Of(layout.tables[input.table].dim),
                        weight_grads[i]});
    num_bags.push_back(input.bags.num_bags);
  }
  for (ReplyWeights& each : requests) views.Add(&each.replies, each.num_replies);
  KERAS_SPARSE_RETURN_IF_ERROR(views.Copy(device));
  RequestsOnDevice<ReplyWeights> to_do;
  KERAS_SPARSE_RETURN_IF_ERROR(
      RequestsOnDevice<ReplyWeights>::Copy(device, requests, num_bags, &to_do));
  Launch(CombineWeightsKernel, BlocksFor(*device, to_do.size(), kDotLanes), kBlock,
         device->stream(), to_do.view());
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
