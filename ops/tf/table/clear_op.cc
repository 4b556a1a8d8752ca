// KerasSparseClear: tables back to the state before training.
#include "ops/core/operations/clear_rows.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseClear")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeClear(tf::OpKernelContext* ctx, const TableList& tables) {
  TfExecutor executor(ctx);
  for (size_t i = 0; i < tables.size(); ++i) {
    TF_RETURN_IF_ERROR(ToTf(ClearRows(tables[i], &executor)));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeClear>> kClear("KerasSparseClear", {"handles"});

}  // namespace keras_sparse
