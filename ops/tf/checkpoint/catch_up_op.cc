// KerasSparseCatchUp: records as they lay in a saved table's tiers -> rows and slots after its last
// step.
#include <memory>

#include "ops/core/optimizer/saved_rule.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/output_allocator.h"
#include "ops/tf/binding/tf_executor.h"

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

static absl::Status ComputeCatchUp(tf::OpKernelContext* ctx) {
  std::shared_ptr<SavedRule> rule;
  TF_RETURN_IF_ERROR(FindOwned(ctx, tf::HandleFromInput(ctx, 0), &rule));
  const tf::Tensor& raw = ctx->input(1);
  if (raw.dims() != 2) {
    return InvalidInput("`raw` must be (n, record_words). Received: raw.shape=" +
                        raw.shape().DebugString());
  }
  const int64_t n = raw.dim_size(0);
  float* records = nullptr;
  TF_RETURN_IF_ERROR(AllocateFloats(ctx, 0, {n, rule->layout().record_floats()}, &records));
  TfExecutor executor(ctx);
  return ToTf(rule->CatchUp(raw.flat<float>().data(), n, raw.dim_size(1), records, &executor));
}

REGISTER_KERNEL_BUILDER(Name("KerasSparseCatchUp").Device(tf::DEVICE_CPU), CallOp<ComputeCatchUp>);

}  // namespace keras_sparse
