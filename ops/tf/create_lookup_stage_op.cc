// KerasSparseCreateLookupStage: options -> handle of a new stage.
// KerasSparseLookupStageState: how far ahead a stage works now.
#include "ops/tf/staged_rows.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCreateLookupStage")
    .Attr("num_threads: int")
    .Attr("capacity: int")
    .Output("stage: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape);

class CreateLookupStageOp : public tf::OpKernel {
 public:
  explicit CreateLookupStageOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_threads", &options_.num_threads));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("capacity", &options_.capacity));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    std::shared_ptr<LookupStage> stage;
    OP_REQUIRES_OK(ctx, ToTf(LookupStage::Open(options_, &stage)));
    tf::Tensor* handle = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &handle));
    handle->scalar<tf::ResourceHandle>()() = tf::ResourceHandle::MakeRefCountingHandle(
        new LookupStageResource(std::move(stage)), ctx->device()->name());
  }

 private:
  LookupStage::Options options_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCreateLookupStage").Device(tf::DEVICE_CPU),
                        CreateLookupStageOp);

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
    tf::core::RefCountPtr<LookupStageResource> resource;
    OP_REQUIRES_OK(ctx, tf::LookupResource(ctx, tf::HandleFromInput(ctx, 0), &resource));
    tf::Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {3}, &output));
    auto state = output->vec<int64_t>();
    state(0) = resource->stage()->num_threads();
    state(1) = resource->stage()->capacity();
    state(2) = resource->stage()->num_staged();
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseLookupStageState").Device(tf::DEVICE_CPU),
                        LookupStageStateOp);

}  // namespace keras_sparse
