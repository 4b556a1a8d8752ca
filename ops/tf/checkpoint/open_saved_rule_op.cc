// KerasSparseOpenSavedRule: a saved table's rule and history -> the handle of a SavedRule.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/optimizer/saved_rule.h"
#include "ops/tf/binding/history_inputs.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseOpenSavedRule")
    .Attr("rule: string")
    .Attr("constant_names: list(string)")
    .Attr("output_dim: int")
    .Attr("keeps_gradient_step: bool")
    .Attr("keeps_frequency: bool")
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

}  // namespace keras_sparse
