// KerasSparseCreateLookupStage: options -> handle of a new stage.
#include "ops/tf/staging/prefetched_rows.h"
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
    std::shared_ptr<LookupPrefetcher> stage;
    OP_REQUIRES_OK(ctx, ToTf(LookupPrefetcher::Open(options_, &stage)));
    tf::Tensor* handle = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &handle));
    handle->scalar<tf::ResourceHandle>()() = tf::ResourceHandle::MakeRefCountingHandle(
        new LookupPrefetcherResource(std::move(stage)), ctx->device()->name());
  }

 private:
  LookupPrefetcher::Options options_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCreateLookupStage").Device(tf::DEVICE_CPU),
                        CreateLookupStageOp);
// Of lookups in tables there: an op takes handles of one device.
REGISTER_KERNEL_BUILDER(
    Name("KerasSparseCreateLookupStage").Device(tf::DEVICE_GPU).HostMemory("stage"),
    CreateLookupStageOp);

}  // namespace keras_sparse
