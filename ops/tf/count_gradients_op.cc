// KerasSparseCountGradients: notes that ranks have exchanged gradients of a lookup.
#include "ops/tf/ahead_exchange.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCountGradients")
    .Input("area: resource")
    // What the exchange gave, and what uses it comes after this.
    .Input("splits: int32")
    .Output("same_splits: int32")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->input(1));
      return absl::OkStatus();
    });

class CountGradientsOp : public tf::OpKernel {
 public:
  explicit CountGradientsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    tf::core::RefCountPtr<ExchangeAreaResource> area;
    OP_REQUIRES_OK(ctx, tf::LookupResource(ctx, tf::HandleFromInput(ctx, 0), &area));
    area->area().bound->CountGradients();
    ctx->set_output(0, ctx->input(1));
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCountGradients").Device(tf::DEVICE_CPU), CountGradientsOp);

}  // namespace keras_sparse
