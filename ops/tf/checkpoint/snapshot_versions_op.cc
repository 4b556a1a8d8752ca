// KerasSparseSnapshotVersions: the version of each table, and whether all its rows have changed.
#include "ops/core/operations/table_snapshot.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseSnapshotVersions")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Output("versions: int64")
    .Output("is_everything_changed: bool")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      for (int i = 0; i < 2; ++i) c->set_output(i, c->Vector(c->num_inputs()));
      return absl::OkStatus();
    });

static absl::Status ComputeSnapshotVersions(tf::OpKernelContext* ctx, const TableList& tables) {
  const auto n = static_cast<int64_t>(tables.size());
  tf::Tensor* versions = nullptr;
  tf::Tensor* is_everything_changed = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {n}, &versions));
  TF_RETURN_IF_ERROR(ctx->allocate_output(1, {n}, &is_everything_changed));
  for (int64_t i = 0; i < n; ++i) {
    const TableSnapshot snapshot(tables[static_cast<size_t>(i)]);
    versions->flat<int64_t>()(i) = snapshot.version();
    is_everything_changed->flat<bool>()(i) = snapshot.is_everything_changed();
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeSnapshotVersions>> kSnapshotVersions(
    "KerasSparseSnapshotVersions", {"handles", "versions", "is_everything_changed"});

}  // namespace keras_sparse
