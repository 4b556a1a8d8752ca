// KerasSparsePromote: brings rows of tables from lower tiers into the first one.
#include "ops/core/operations/import_rows.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

REGISTER_OP("KerasSparsePromote")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Output("num_promoted: int64")
    .Output("versions: int64")  // (N, 2), of each table before and after
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      c->set_output(0, c->Vector(n));
      c->set_output(1, c->Matrix(n, 2));
      return absl::OkStatus();
    });

static absl::Status ComputePromote(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList keys;
  tf::Tensor* num_promoted = nullptr;
  tf::Tensor* versions = nullptr;
  TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {keys.size()}, &num_promoted));
  TF_RETURN_IF_ERROR(ctx->allocate_output(1, {keys.size(), 2}, &versions));
  TfExecutor executor(ctx);
  for (int i = 0; i < keys.size(); ++i) {
    Promotion promotion;
    TF_RETURN_IF_ERROR(ToTf(PromoteRows(tables[i], keys[i].flat<int64_t>().data(),
                                        keys[i].NumElements(), &executor, &promotion)));
    num_promoted->flat<int64_t>()(i) = promotion.num_rows;
    versions->matrix<int64_t>()(i, 0) = promotion.version_before;
    versions->matrix<int64_t>()(i, 1) = promotion.version;
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputePromote>> kPromote("KerasSparsePromote",
                                                             {"handles", "keys", "num_promoted",
                                                              "versions"});

}  // namespace keras_sparse
