// KerasSparseRestore: clears a table and goes on after the steps of a saved one.
#include "ops/core/operations/clear_rows.h"
#include "ops/tf/binding/history_inputs.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

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

}  // namespace keras_sparse
