// KerasSparseApply: one optimizer step on the rows of a batch, all tables at once.
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/operations/apply.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/binding/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseApply")
    .Attr("N: int >= 1")
    .Attr("rule_generations: list(int)")
    .Attr("combiners: list(string)")
    .Input("handles: N * resource")
    .Input("ids: N * int64")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Input("output_grads: N * float")
    .Input("numbers: float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class ApplyOp : public tf::OpKernel {
 public:
  explicit ApplyOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rule_generations", &rule_generations_));
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
    OP_REQUIRES(
        ctx, rule_generations_.size() == combiners_.size(),
        InvalidInput(absl::StrCat("`rule_generations` must have one number a table, ",
                                  combiners_.size(), ". Received: ", rule_generations_.size())));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    BagInputs inputs;
    tf::OpInputList grads;
    const tf::Tensor* numbers = nullptr;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, combiners_));
    OP_REQUIRES_OK(ctx, ctx->input_list("output_grads", &grads));
    OP_REQUIRES_OK(ctx, CheckOutputGradients(grads, inputs));
    OP_REQUIRES_OK(ctx, ctx->input("numbers", &numbers));
    OP_REQUIRES(
        ctx, numbers->dims() == 2 && numbers->dim_size(0) == grads.size(),
        InvalidInput(absl::StrCat("`numbers` must have one row a table, ", grads.size(),
                                  ". Received: numbers.shape=", numbers->shape().DebugString())));
    const auto rows = numbers->matrix<float>();
    std::vector<ApplyRequest> requests;
    for (int i = 0; i < grads.size(); ++i) {
      const auto t = static_cast<size_t>(i);
      OP_REQUIRES(ctx, grads[i].dim_size(1) == tables[t]->dim(),
                  InvalidInput(absl::StrCat("`output_grads` of table '", tables[t]->name(),
                                            "' must be of width ", tables[t]->dim(),
                                            ". Received: output_grads[", i,
                                            "].shape=", grads[i].shape().DebugString())));
      requests.push_back(
          {tables[t],
           {inputs.ids(i), inputs.bags(t), grads[i].flat<float>().data(), tables[t]->dim()},
           rule_generations_[t],
           {rows.data() + i * rows.dimension(1), rows.data() + (i + 1) * rows.dimension(1)}});
    }
    TfExecutor executor(ctx);
    OP_REQUIRES_OK(ctx, ToTf(ApplyGradients(requests, &executor)));
  }

 private:
  std::vector<int64_t> rule_generations_;
  std::vector<Combiner> combiners_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseApply").Device(tf::DEVICE_CPU), ApplyOp);

}  // namespace keras_sparse
