// KerasSparseExport: the next rows of each table, with slots, from a cursor on.
#include <vector>

#include "ops/core/operations/export_rows.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseExport")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("cursors: int64")
    .Input("max_rows: int64")
    .Output("keys: N * int64")
    .Output("records: N * float")
    .Output("ages: N * uint32")
    .Output("frequencies: N * uint32")
    .Output("next_cursors: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      for (int i = 0; i < n; ++i) {
        c->set_output(i, c->Vector(c->UnknownDim()));
        c->set_output(n + i, c->Matrix(c->UnknownDim(), c->UnknownDim()));
        c->set_output(2 * n + i, c->Vector(c->UnknownDim()));
        c->set_output(3 * n + i, c->Vector(c->UnknownDim()));
      }
      c->set_output(4 * n, c->Vector(n));
      return absl::OkStatus();
    });

class ExportOp : public tf::OpKernel {
 public:
  explicit ExportOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    const tf::Tensor* cursors = nullptr;
    const tf::Tensor* max_rows = nullptr;
    OP_REQUIRES_OK(ctx, ctx->input("cursors", &cursors));
    OP_REQUIRES_OK(ctx, ctx->input("max_rows", &max_rows));
    const auto n = static_cast<int64_t>(tables.size());
    OP_REQUIRES(ctx, cursors->NumElements() == n && max_rows->NumElements() == 1,
                InvalidInput("`cursors` must have one number a table, `max_rows` one"));
    tf::OpOutputList keys;
    tf::OpOutputList records;
    OP_REQUIRES_OK(ctx, ctx->output_list("keys", &keys));
    tf::OpOutputList ages;
    tf::OpOutputList frequencies;
    OP_REQUIRES_OK(ctx, ctx->output_list("records", &records));
    OP_REQUIRES_OK(ctx, ctx->output_list("ages", &ages));
    OP_REQUIRES_OK(ctx, ctx->output_list("frequencies", &frequencies));
    tf::Tensor* next_cursors = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("next_cursors", {n}, &next_cursors));
    for (int i = 0; i < n; ++i) {
      ExportedRows rows;
      OP_REQUIRES_OK(ctx, ToTf(ExportRows(*tables[i], cursors->flat<int64_t>()(i),
                                          max_rows->flat<int64_t>()(0), &rows)));
      const auto num_rows = static_cast<int64_t>(rows.keys.size());
      OP_REQUIRES_OK(ctx, CopyToOutput(rows.keys, {num_rows}, i, &keys));
      OP_REQUIRES_OK(ctx, CopyToOutput(rows.records, {num_rows, rows.record_floats}, i, &records));
      const auto num_ages = static_cast<int64_t>(rows.ages.size());
      const auto num_frequencies = static_cast<int64_t>(rows.frequencies.size());
      OP_REQUIRES_OK(ctx, CopyToOutput(rows.ages, {num_ages}, i, &ages));
      OP_REQUIRES_OK(ctx, CopyToOutput(rows.frequencies, {num_frequencies}, i, &frequencies));
      next_cursors->flat<int64_t>()(i) = rows.next_cursor;
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseExport").Device(tf::DEVICE_CPU), ExportOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseExport")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("cursors")
                            .HostMemory("max_rows")
                            .HostMemory("keys")
                            .HostMemory("records")
                            .HostMemory("ages")
                            .HostMemory("frequencies")
                            .HostMemory("next_cursors"),
                        ExportOp);

}  // namespace keras_sparse
