// Ops of the steps that a rule remembers: export and replay.
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/operations/clear_rows.h"
#include "ops/core/operations/import_rows.h"
#include "ops/core/operations/set_rule.h"
#include "ops/tf/binding/history_inputs.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

// KerasSparseExportHistory: exports the numbers of each table's rule in the steps that rows may
// have missed.
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

// KerasSparseRestore: clears a table and continues after the steps of a saved one.
REGISTER_OP("KerasSparseRestore")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .KERAS_SPARSE_HISTORY_INPUTS.SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeRestore(tf::OpKernelContext* ctx, const TableList& tables) {
  RuleHistory history;
  TF_RETURN_IF_ERROR(ReadHistory(ctx, &history));
  TfExecutor executor(ctx);
  for (size_t i = 0; i < tables.size(); ++i) {
    TF_RETURN_IF_ERROR(ToTf(RestoreSteps(tables[i], history, &executor)));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeRestore>> kRestore("KerasSparseRestore",
                                                             {"handles", "step", "first_step",
                                                              "table_step", "run_lengths",
                                                              "numbers"});

// KerasSparseApplyChanges: moves a table from one saved state to a later one.
REGISTER_OP("KerasSparseApplyChanges")
    .Attr("M: int >= 0")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .KERAS_SPARSE_HISTORY_INPUTS.Input("erased: M * int64")
    .Input("keys: M * int64")
    .Input("records: M * float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeApplyChanges(tf::OpKernelContext* ctx, const TableList& tables) {
  RuleHistory history;
  tf::OpInputList erased;
  tf::OpInputList keys;
  tf::OpInputList records;
  if (tables.size() != 1) {
    return InvalidInput(
        absl::StrCat("changes are those of one table. Received: ", tables.size(), " tables"));
  }
  TF_RETURN_IF_ERROR(ReadHistory(ctx, &history));
  TF_RETURN_IF_ERROR(ctx->input_list("erased", &erased));
  TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
  TF_RETURN_IF_ERROR(ctx->input_list("records", &records));
  std::vector<SavedChange> changes;
  for (int i = 0; i < keys.size(); ++i) {
    const int64_t n = keys[i].NumElements();
    TF_RETURN_IF_ERROR(CheckRecordsShape(records[i], n));
    changes.push_back({erased[i].flat<int64_t>().data(), erased[i].NumElements(),
                       keys[i].flat<int64_t>().data(), records[i].flat<float>().data(), n,
                       records[i].dim_size(1)});
  }
  TfExecutor executor(ctx);
  return ToTf(ApplyChanges(tables[0], history, changes, &executor));
}

const RegisterOnCpuAndGpu<TablesOp<ComputeApplyChanges>> kApplyChanges(
    "KerasSparseApplyChanges", {"handles", "step", "first_step", "table_step", "run_lengths",
                                "numbers", "erased", "keys", "records"});

}  // namespace keras_sparse
