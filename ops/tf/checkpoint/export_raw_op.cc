// KerasSparseExportRaw: the next records of a table as they lie in its tiers, from a cursor on.
#include <algorithm>

#include "ops/core/operations/table_snapshot.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseExportRaw")
    .Attr("N: int >= 1")
    .Attr("only_changed: bool")
    .Attr("only_unlinked: bool")
    .Input("handles: N * resource")
    .Input("cursor: int64")
    .Input("max_rows: int64")
    .Output("keys: int64")
    .Output("records: float")  // the bits of whole records; the last words may be integers
    .Output("next_cursor: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->Matrix(c->UnknownDim(), c->UnknownDim()));
      c->set_output(2, c->Scalar());
      return absl::OkStatus();
    });

class ExportRawOp : public tf::OpKernel {
 public:
  explicit ExportRawOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("only_changed", &selection_.only_changed));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("only_unlinked", &selection_.only_unlinked));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    const tf::Tensor* cursor = nullptr;
    const tf::Tensor* max_rows = nullptr;
    OP_REQUIRES_OK(ctx, ctx->input("cursor", &cursor));
    OP_REQUIRES_OK(ctx, ctx->input("max_rows", &max_rows));
    OP_REQUIRES(ctx,
                tables.size() == 1 && cursor->NumElements() == 1 && max_rows->NumElements() == 1,
                InvalidInput("`cursor` and `max_rows` must be one number each"));
    RawRows rows;
    OP_REQUIRES_OK(ctx, ToTf(TableSnapshot(tables[0]).Export(selection_, cursor->flat<int64_t>()(0),
                                                             max_rows->flat<int64_t>()(0), &rows)));
    const auto n = static_cast<int64_t>(rows.keys.size());
    tf::Tensor* keys = nullptr;
    tf::Tensor* records = nullptr;
    tf::Tensor* next_cursor = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("keys", {n}, &keys));
    OP_REQUIRES_OK(ctx, ctx->allocate_output("records", {n, rows.record_bytes / 4}, &records));
    OP_REQUIRES_OK(ctx, ctx->allocate_output("next_cursor", {}, &next_cursor));
    std::copy(rows.keys.begin(), rows.keys.end(), keys->flat<int64_t>().data());
    std::copy(rows.records.begin(), rows.records.end(),
              reinterpret_cast<char*>(records->flat<float>().data()));
    next_cursor->scalar<int64_t>()() = rows.next_cursor;
  }

 private:
  RawSelection selection_;
};

const RegisterOnCpuAndGpu<ExportRawOp> kExportRaw("KerasSparseExportRaw",
                                                  {"handles", "cursor", "max_rows", "keys",
                                                   "records", "next_cursor"});

}  // namespace keras_sparse
