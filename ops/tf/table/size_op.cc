// KerasSparseSize: rows of each table.
#include "ops/core/operations/read_stats.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseSize")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Output("sizes: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->num_inputs()));
      return absl::OkStatus();
    });

static absl::Status ComputeSize(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::Tensor* sizes = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {static_cast<int64_t>(tables.size())}, &sizes));
  for (size_t i = 0; i < tables.size(); ++i) sizes->flat<int64_t>()(i) = NumRowsOf(*tables[i]);
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeSize>> kSize("KerasSparseSize", {"handles", "sizes"});

}  // namespace keras_sparse
