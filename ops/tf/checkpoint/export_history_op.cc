// KerasSparseExportHistory: what each table's rule was given in the steps that rows may have
// missed.

#include "ops/core/operations/set_rule.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseExportHistory")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Output("steps: int64")
    .Output("first_steps: int64")
    .Output("table_steps: uint32")
    .Output("run_lengths: N * int64")
    .Output("numbers: N * float")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      for (int i = 0; i < 3; ++i) c->set_output(i, c->Vector(n));
      for (int i = 0; i < n; ++i) {
        c->set_output(3 + i, c->Vector(c->UnknownDim()));
        c->set_output(3 + n + i, c->Matrix(c->UnknownDim(), c->UnknownDim()));
      }
      return absl::OkStatus();
    });

static absl::Status ComputeExportHistory(tf::OpKernelContext* ctx, const TableList& tables) {
  const auto n = static_cast<int64_t>(tables.size());
  tf::Tensor* steps = nullptr;
  tf::Tensor* first_steps = nullptr;
  tf::Tensor* table_steps = nullptr;
  tf::OpOutputList run_lengths;
  tf::OpOutputList numbers;
  TF_RETURN_IF_ERROR(ctx->allocate_output("steps", {n}, &steps));
  TF_RETURN_IF_ERROR(ctx->allocate_output("first_steps", {n}, &first_steps));
  TF_RETURN_IF_ERROR(ctx->allocate_output("table_steps", {n}, &table_steps));
  TF_RETURN_IF_ERROR(ctx->output_list("run_lengths", &run_lengths));
  TF_RETURN_IF_ERROR(ctx->output_list("numbers", &numbers));
  for (int i = 0; i < n; ++i) {
    const RuleHistory history = HistoryOf(*tables[static_cast<size_t>(i)]);
    const auto num_runs = static_cast<int64_t>(history.run_lengths.size());
    steps->flat<int64_t>()(i) = history.step;
    first_steps->flat<int64_t>()(i) = history.first_step;
    table_steps->flat<uint32_t>()(i) = history.table_step;
    TF_RETURN_IF_ERROR(CopyToOutput(history.run_lengths, {num_runs}, i, &run_lengths));
    TF_RETURN_IF_ERROR(CopyToOutput(history.numbers, {num_runs, history.num_numbers}, i, &numbers));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeExportHistory>> kExportHistory(
    "KerasSparseExportHistory",
    {"handles", "steps", "first_steps", "table_steps", "run_lengths", "numbers"});

}  // namespace keras_sparse
