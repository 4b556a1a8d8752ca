// KerasSparseEraseRows: drops rows of tables by their keys.
#include "ops/core/operations/evict_rows.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseEraseRows")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeEraseRows(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList keys;
  TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
  TfExecutor executor(ctx);
  for (int i = 0; i < keys.size(); ++i) {
    TF_RETURN_IF_ERROR(ToTf(
        EraseRows(tables[i], keys[i].flat<int64_t>().data(), keys[i].NumElements(), &executor)));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeEraseRows>> kEraseRows("KerasSparseEraseRows",
                                                                 {"handles", "keys"});

}  // namespace keras_sparse
