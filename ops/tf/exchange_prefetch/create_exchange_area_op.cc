// KerasSparseCreateExchangeArea: tables -> where lookups over ranks in them wait for their steps.
#include "ops/tf/binding/kernel.h"
#include "ops/tf/exchange_prefetch/prefetch_exchange.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCreateExchangeArea")
    .Attr("P: int >= 0")
    .Input("handles: P * resource")
    .Output("area: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape);

static absl::Status ComputeCreateExchangeArea(tf::OpKernelContext* ctx) {
  TableList tables;
  TF_RETURN_IF_ERROR(tables.ReadOfAnyDevice(ctx));
  // Its counts are then in the statistics of that table.
  auto area = std::make_shared<ExchangeArea>(ExchangeArea{
      tables.size() > 0 ? tables.prefetch_buffer(0) : std::make_shared<PrefetchBuffer>(),
      std::make_shared<StepClock>()});
  SetHandle(ctx, 0, new OwnedResource<ExchangeArea>("an exchange area", std::move(area)));
  return absl::OkStatus();
}

REGISTER_KERNEL_BUILDER(Name("KerasSparseCreateExchangeArea").Device(tf::DEVICE_CPU),
                        CallOp<ComputeCreateExchangeArea>);

}  // namespace keras_sparse
