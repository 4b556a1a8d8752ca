// KerasSparseErasedKeys: the keys whose rows have gone since the table was saved.
#include "ops/core/operations/table_snapshot.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseErasedKeys")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Output("keys: N * int64")
    .SetIsStateful()
    .SetShapeFn(VectorShapes);

static absl::Status ComputeErasedKeys(tf::OpKernelContext* ctx, const TableList& tables) {
  for (size_t i = 0; i < tables.size(); ++i) {
    TF_RETURN_IF_ERROR(
        CopyToOutput(TableSnapshot(tables[i]).ErasedKeys(), static_cast<int>(i), ctx));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeErasedKeys>> kErasedKeys("KerasSparseErasedKeys",
                                                                   {"handles", "keys"});

}  // namespace keras_sparse
