// KerasSparseExportFilter: the next entries of each table's admission filter, from a cursor on.

#include "ops/core/operations/set_filter.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseExportFilter")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("cursors: int64")
    .Input("max_entries: int64")
    .Output("keys: N * int64")
    .Output("counts: N * uint32")
    .Output("next_cursors: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      for (int i = 0; i < 2 * n; ++i) c->set_output(i, c->Vector(c->UnknownDim()));
      c->set_output(2 * n, c->Vector(n));
      return absl::OkStatus();
    });

static absl::Status ComputeExportFilter(tf::OpKernelContext* ctx, const TableList& tables) {
  const tf::Tensor* cursors = nullptr;
  const tf::Tensor* max_entries = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("cursors", &cursors));
  TF_RETURN_IF_ERROR(ctx->input("max_entries", &max_entries));
  const auto n = static_cast<int64_t>(tables.size());
  if (cursors->NumElements() != n || max_entries->NumElements() != 1) {
    return InvalidInput("`cursors` must have one number a table, `max_entries` one");
  }
  tf::OpOutputList keys;
  tf::OpOutputList counts;
  TF_RETURN_IF_ERROR(ctx->output_list("keys", &keys));
  TF_RETURN_IF_ERROR(ctx->output_list("counts", &counts));
  tf::Tensor* next_cursors = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output("next_cursors", {n}, &next_cursors));
  for (int i = 0; i < n; ++i) {
    FilterEntries entries;
    TF_RETURN_IF_ERROR(
        ToTf(ExportFilter(*tables[static_cast<size_t>(i)], cursors->flat<int64_t>()(i),
                          max_entries->flat<int64_t>()(0), &entries)));
    const auto num_entries = static_cast<int64_t>(entries.keys.size());
    TF_RETURN_IF_ERROR(CopyToOutput(entries.keys, {num_entries}, i, &keys));
    TF_RETURN_IF_ERROR(CopyToOutput(entries.counts, {num_entries}, i, &counts));
    next_cursors->flat<int64_t>()(i) = entries.next_cursor;
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeExportFilter>> kExportFilter("KerasSparseExportFilter",
                                                                       {"handles", "cursors",
                                                                        "max_entries", "keys",
                                                                        "counts", "next_cursors"});

}  // namespace keras_sparse
