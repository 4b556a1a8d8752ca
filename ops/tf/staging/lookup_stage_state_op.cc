// KerasSparseLookupStageState: how far ahead a stage works now.
#include "ops/tf/staging/prefetched_rows.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseLookupStageState")
    .Input("stage: resource")
    .Output("state: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(3));
      return absl::OkStatus();
    });

class LookupStageStateOp : public tf::OpKernel {
 public:
  explicit LookupStageStateOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    tf::core::RefCountPtr<LookupPrefetcherResource> resource;
    OP_REQUIRES_OK(ctx, tf::LookupResource(ctx, tf::HandleFromInput(ctx, 0), &resource));
    tf::Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {3}, &output));
    auto state = output->vec<int64_t>();
    state(0) = resource->stage()->num_threads();
    state(1) = resource->stage()->capacity();
    state(2) = resource->stage()->num_ahead();
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseLookupStageState").Device(tf::DEVICE_CPU),
                        LookupStageStateOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseLookupStageState")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("stage")
                            .HostMemory("state"),
                        LookupStageStateOp);

}  // namespace keras_sparse
