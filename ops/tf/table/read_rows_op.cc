// KerasSparseReadRows: the rows of keys, with slots, and which keys have one.
#include <algorithm>

#include "ops/core/operations/export_rows.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseReadRows")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Output("exist: N * bool")
    .Output("records: N * float")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      for (int i = 0; i < n; ++i) {
        const tf::shape_inference::DimensionHandle num_keys = c->NumElements(c->input(n + i));
        c->set_output(i, c->Vector(num_keys));
        c->set_output(n + i, c->Matrix(num_keys, c->UnknownDim()));
      }
      return absl::OkStatus();
    });

static absl::Status ComputeReadRows(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList keys;
  TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
  tf::OpOutputList exist;
  tf::OpOutputList records;
  TF_RETURN_IF_ERROR(ctx->output_list("exist", &exist));
  TF_RETURN_IF_ERROR(ctx->output_list("records", &records));
  TfExecutor executor(ctx);
  for (int i = 0; i < keys.size(); ++i) {
    const int64_t n = keys[i].NumElements();
    RowsOfKeys rows;
    TF_RETURN_IF_ERROR(
        ToTf(ReadRows(*tables[i], keys[i].flat<int64_t>().data(), n, &executor, &rows)));
    tf::Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(exist.allocate(i, {n}, &output));
    std::copy(rows.exist.begin(), rows.exist.end(), output->flat<bool>().data());
    TF_RETURN_IF_ERROR(CopyToOutput(rows.records, {n, rows.record_floats}, i, &records));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeReadRows>> kReadRows("KerasSparseReadRows",
                                                               {"handles", "keys", "exist",
                                                                "records"});

}  // namespace keras_sparse
