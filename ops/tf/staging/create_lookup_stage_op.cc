// KerasSparseCreateLookupStage: options -> handle of a new stage.
#include "ops/tf/binding/kernel.h"
#include "ops/tf/staging/prefetched_rows.h"

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
    SetHandle(ctx, 0, new LookupPrefetcherResource(std::move(stage)));
  }

 private:
  LookupPrefetcher::Options options_;
};

// Of lookups in tables there: an op takes handles of one device.
const RegisterOnCpuAndGpu<CreateLookupStageOp> kCreateLookupStage("KerasSparseCreateLookupStage",
                                                                  {"stage"});

}  // namespace keras_sparse
