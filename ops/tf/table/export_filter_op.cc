// KerasSparseExportFilter: the next entries of each table's admission filter, from a cursor on.
#include <algorithm>

#include "ops/core/operations/set_filter.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

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

class ExportFilterOp : public tf::OpKernel {
 public:
  explicit ExportFilterOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    const tf::Tensor* cursors = nullptr;
    const tf::Tensor* max_entries = nullptr;
    OP_REQUIRES_OK(ctx, ctx->input("cursors", &cursors));
    OP_REQUIRES_OK(ctx, ctx->input("max_entries", &max_entries));
    const auto n = static_cast<int64_t>(tables.size());
    OP_REQUIRES(ctx, cursors->NumElements() == n && max_entries->NumElements() == 1,
                InvalidInput("`cursors` must have one number a table, `max_entries` one"));
    tf::OpOutputList keys;
    tf::OpOutputList counts;
    OP_REQUIRES_OK(ctx, ctx->output_list("keys", &keys));
    OP_REQUIRES_OK(ctx, ctx->output_list("counts", &counts));
    tf::Tensor* next_cursors = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("next_cursors", {n}, &next_cursors));
    for (int i = 0; i < n; ++i) {
      FilterEntries entries;
      OP_REQUIRES_OK(ctx,
                     ToTf(ExportFilter(*tables[static_cast<size_t>(i)], cursors->flat<int64_t>()(i),
                                       max_entries->flat<int64_t>()(0), &entries)));
      const tf::TensorShape shape({static_cast<int64_t>(entries.keys.size())});
      tf::Tensor* piece_keys = nullptr;
      tf::Tensor* piece_counts = nullptr;
      OP_REQUIRES_OK(ctx, keys.allocate(i, shape, &piece_keys));
      OP_REQUIRES_OK(ctx, counts.allocate(i, shape, &piece_counts));
      std::copy(entries.keys.begin(), entries.keys.end(), piece_keys->flat<int64_t>().data());
      std::copy(entries.counts.begin(), entries.counts.end(),
                piece_counts->flat<uint32_t>().data());
      next_cursors->flat<int64_t>()(i) = entries.next_cursor;
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseExportFilter").Device(tf::DEVICE_CPU), ExportFilterOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseExportFilter")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("cursors")
                            .HostMemory("max_entries")
                            .HostMemory("keys")
                            .HostMemory("counts")
                            .HostMemory("next_cursors"),
                        ExportFilterOp);

}  // namespace keras_sparse
