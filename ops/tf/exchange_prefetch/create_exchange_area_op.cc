// KerasSparseCreateExchangeArea: tables -> where lookups over ranks in them wait for their steps.
#include "ops/tf/exchange_prefetch/prefetch_exchange.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCreateExchangeArea")
    .Attr("P: int >= 0")
    .Input("handles: P * resource")
    .Output("area: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape);

class CreateExchangeAreaOp : public tf::OpKernel {
 public:
  explicit CreateExchangeAreaOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.ReadOfAnyDevice(ctx));
    // Its counts are then in the statistics of that table.
    const ExchangeArea area{
        tables.size() > 0 ? tables.prefetch_buffer(0) : std::make_shared<PrefetchBuffer>(),
        std::make_shared<StepClock>()};
    tf::Tensor* handle = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &handle));
    handle->scalar<tf::ResourceHandle>()() = tf::ResourceHandle::MakeRefCountingHandle(
        new ExchangeAreaResource(area), ctx->device()->name());
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCreateExchangeArea").Device(tf::DEVICE_CPU),
                        CreateExchangeAreaOp);

}  // namespace keras_sparse
