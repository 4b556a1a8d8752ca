// Ops of a saved rule, without its table.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/optimizer/saved_rule.h"
#include "ops/tf/binding/history_inputs.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/output_allocator.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

// KerasSparseOpenSavedRule: a saved table's rule and history -> the handle of a SavedRule.
REGISTER_OP("KerasSparseOpenSavedRule")
    .Attr("rule: string")
    .Attr("constant_names: list(string)")
    .Attr("output_dim: int")
    .Attr("keeps_gradient_step: bool")
    .Attr("keeps_frequency: bool")
    .Attr("row_type: {float, half, bfloat16} = DT_FLOAT")
    .Attr("slot_type: {float, half, bfloat16} = DT_FLOAT")
    .Input("constants: double")
    .Input("weight_decay: double")
    .KERAS_SPARSE_HISTORY_INPUTS.Output("handle: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape);

class OpenSavedRuleOp : public tf::OpKernel {
 public:
  explicit OpenSavedRuleOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rule", &rule_.rule));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("constant_names", &constant_names_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_dim", &rule_.dim));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("keeps_gradient_step", &rule_.keeps.gradient_step));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("keeps_frequency", &rule_.keeps.frequency));
    tf::DataType row_type = tf::DT_FLOAT;
    tf::DataType slot_type = tf::DT_FLOAT;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("row_type", &row_type));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slot_type", &slot_type));
    rule_.types = {FloatTypeOf(row_type), FloatTypeOf(slot_type)};
  }

  void Compute(tf::OpKernelContext* ctx) override {
    RuleOptions rule = rule_;
    RuleHistory history;
    OP_REQUIRES_OK(ctx, ReadRule(ctx, &rule));
    OP_REQUIRES_OK(ctx, ReadHistory(ctx, &history));
    std::unique_ptr<SavedRule> saved;
    OP_REQUIRES_OK(ctx, ToTf(SavedRule::Open(rule, history, &saved)));
    SetHandle(ctx, 0, new OwnedResource<SavedRule>("a saved rule", std::move(saved)));
  }

 private:
  absl::Status ReadRule(tf::OpKernelContext* ctx, RuleOptions* rule) const {
    const tf::Tensor* weight_decay = nullptr;
    TF_RETURN_IF_ERROR(ctx->input("weight_decay", &weight_decay));
    TF_RETURN_IF_ERROR(ReadConstants(ctx, constant_names_, &rule->constants));
    if (weight_decay->NumElements() != 1) {
      return InvalidInput(absl::StrCat("`weight_decay` must be one number. Received: ",
                                       weight_decay->NumElements()));
    }
    rule->weight_decay = weight_decay->flat<double>()(0);
    return absl::OkStatus();
  }

  RuleOptions rule_;
  std::vector<std::string> constant_names_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseOpenSavedRule").Device(tf::DEVICE_CPU), OpenSavedRuleOp);

// KerasSparseCatchUp: records as a saved table's tiers stored them -> rows and slots after its last
// step.
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
