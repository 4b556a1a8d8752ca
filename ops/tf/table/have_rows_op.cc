// KerasSparseHaveRows: which keys have a row.
#include <vector>

#include "ops/core/operations/export_rows.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseHaveRows")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Output("exist: N * bool")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      for (int i = 0; i < n; ++i) c->set_output(i, c->Vector(c->NumElements(c->input(n + i))));
      return absl::OkStatus();
    });

static absl::Status ComputeHaveRows(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList keys;
  TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
  tf::OpOutputList exist;
  TF_RETURN_IF_ERROR(ctx->output_list("exist", &exist));
  for (int i = 0; i < keys.size(); ++i) {
    const int64_t* first = keys[i].flat<int64_t>().data();
    const int64_t n = keys[i].NumElements();
    std::vector<bool> have;
    TF_RETURN_IF_ERROR(ToTf(HaveRows(*tables[i], {first, first + n}, &have)));
    TF_RETURN_IF_ERROR(CopyToOutput(have, {n}, i, &exist));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeHaveRows>> kHaveRows("KerasSparseHaveRows",
                                                               {"handles", "keys", "exist"});

}  // namespace keras_sparse
