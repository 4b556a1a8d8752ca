// KerasSparseCompact: bytes of rows that have gone leave the files of tables.
#include "ops/core/operations/evict_rows.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCompact")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeCompact(tf::OpKernelContext* ctx, const TableList& tables) {
  for (size_t i = 0; i < tables.size(); ++i) {
    TF_RETURN_IF_ERROR(ToTf(CompactTiers(*tables[i])));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeCompact>> kCompact("KerasSparseCompact", {"handles"});

}  // namespace keras_sparse
