// KerasSparseCatchUp: records as they lay in a saved table's tiers -> rows and slots after its last
// step.
#include "ops/tf/binding/binding.h"
#include "ops/tf/binding/output_allocator.h"
#include "ops/tf/binding/tf_executor.h"
#include "ops/tf/checkpoint/saved_rule_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCatchUp")
    .Input("saved_rule: resource")
    .Input("raw: float")
    .Output("records: float")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      tf::shape_inference::ShapeHandle raw;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &raw));
      c->set_output(0, c->Matrix(c->Dim(raw, 0), c->UnknownDim()));
      return absl::OkStatus();
    });

class CatchUpOp : public tf::OpKernel {
 public:
  explicit CatchUpOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    tf::core::RefCountPtr<SavedRuleResource> resource;
    OP_REQUIRES_OK(ctx, tf::LookupResource(ctx, tf::HandleFromInput(ctx, 0), &resource));
    const SavedRule& rule = resource->rule();
    const tf::Tensor& raw = ctx->input(1);
    OP_REQUIRES(ctx, raw.dims() == 2,
                InvalidInput("`raw` must be (n, record_words). Received: raw.shape=" +
                             raw.shape().DebugString()));
    const int64_t n = raw.dim_size(0);
    float* records = nullptr;
    OP_REQUIRES_OK(ctx, AllocateFloats(ctx, 0, {n, rule.layout().record_floats()}, &records));
    TfExecutor executor(ctx);
    OP_REQUIRES_OK(
        ctx, ToTf(rule.CatchUp(raw.flat<float>().data(), n, raw.dim_size(1), records, &executor)));
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCatchUp").Device(tf::DEVICE_CPU), CatchUpOp);

}  // namespace keras_sparse
