// KerasSparseCheckUpdate: whether tables would refuse an update, for a step of several ops.
#include "ops/core/operations/check_room.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCheckUpdate")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("ids: N * int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeCheckUpdate(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList ids;
  TF_RETURN_IF_ERROR(ctx->input_list("ids", &ids));
  TfExecutor executor(ctx);
  for (int i = 0; i < ids.size(); ++i) {
    EmbeddingTable* table = tables[static_cast<size_t>(i)];
    TF_RETURN_IF_ERROR(
        ToTf(CheckUpdate(table, ids[i].flat<int64_t>().data(), ids[i].NumElements(), &executor)));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeCheckUpdate>> kCheckUpdate("KerasSparseCheckUpdate",
                                                                     {"handles", "ids"});

}  // namespace keras_sparse
