// KerasSparseApply: makes one optimizer step on the rows of a batch, for all tables at once. A
// table that comes several times, one after the other, has the gradients of several lookups, and
// the `numbers` of the first.
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/operations/apply.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseApply")
    .Attr("N: int >= 1")
    .Attr("grad_types: list({float, half, bfloat16}) >= 1")
    .Attr("rule_generations: list(int)")
    .Attr("combiners: list(string)")
    // The first column of each table's gradient in its `output_grads`, if that has more columns.
    .Attr("columns: list(int) = []")
    .Input("handles: N * resource")
    .Input("ids: N * int64")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Input("output_grads: grad_types")
    .Input("numbers: float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class ApplyOp : public tf::OpKernel {
 public:
  explicit ApplyOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rule_generations", &rule_generations_));
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("columns", &columns_));
    OP_REQUIRES(
        ctx, rule_generations_.size() == combiners_.size(),
        InvalidInput(absl::StrCat("`rule_generations` must have one number a table, ",
                                  combiners_.size(), ". Received: ", rule_generations_.size())));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    BagInputs inputs;
    std::vector<OutputGradient> gradients;
    const tf::Tensor* numbers = nullptr;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, combiners_));
    OP_REQUIRES_OK(ctx, ReadOutputGradients(ctx, inputs, columns_, DimsOf(tables), &gradients));
    OP_REQUIRES_OK(ctx, ctx->input("numbers", &numbers));
    OP_REQUIRES(
        ctx, numbers->dims() == 2 && numbers->dim_size(0) == static_cast<int64_t>(tables.size()),
        InvalidInput(absl::StrCat("`numbers` must have one row a table, ", tables.size(),
                                  ". Received: numbers.shape=", numbers->shape().DebugString())));
    const auto rows = numbers->matrix<float>();
    std::vector<ApplyRequest> requests;
    for (size_t t = 0; t < tables.size(); ++t) {
      if (requests.empty() || requests.back().table != tables[t]) {
        const float* of_table = rows.data() + static_cast<int64_t>(t) * rows.dimension(1);
        requests.push_back(
            {tables[t], {}, rule_generations_[t], {of_table, of_table + rows.dimension(1)}});
      }
      requests.back().gradients.push_back(gradients[t]);
    }
    TfExecutor executor(ctx);
    OP_REQUIRES_OK(ctx, ToTf(ApplyGradients(requests, &executor)));
  }

 private:
  std::vector<int64_t> rule_generations_;
  std::vector<Combiner> combiners_;
  std::vector<int64_t> columns_;
};

const RegisterOnCpuAndGpu<ApplyOp> kApply("KerasSparseApply", {"handles", "numbers"});

}  // namespace keras_sparse
