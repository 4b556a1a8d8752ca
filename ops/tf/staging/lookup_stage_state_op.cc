// KerasSparseLookupStageState: how far ahead a stage works now.
#include "ops/tf/binding/kernel.h"
#include "ops/tf/staging/prefetched_rows.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseLookupStageState")
    .Input("stage: resource")
    .Output("state: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(3));
      return absl::OkStatus();
    });

static absl::Status ComputeLookupStageState(tf::OpKernelContext* ctx) {
  tf::core::RefCountPtr<LookupPrefetcherResource> resource;
  TF_RETURN_IF_ERROR(tf::LookupResource(ctx, tf::HandleFromInput(ctx, 0), &resource));
  tf::Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {3}, &output));
  auto state = output->vec<int64_t>();
  state(0) = resource->stage()->num_threads();
  state(1) = resource->stage()->capacity();
  state(2) = resource->stage()->num_ahead();
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<CallOp<ComputeLookupStageState>> kLookupStageState(
    "KerasSparseLookupStageState", {"stage", "state"});

}  // namespace keras_sparse
