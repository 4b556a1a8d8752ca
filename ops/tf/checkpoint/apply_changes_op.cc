// KerasSparseApplyChanges: brings a table from one state of a saved table to a later one.
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/operations/import_rows.h"
#include "ops/tf/binding/history_inputs.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

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
