// KerasSparseReadRows: the rows of keys, with slots, and which keys have one.
#include <algorithm>

#include "ops/core/operations/export_rows.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/binding/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

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

class ReadRowsOp : public tf::OpKernel {
 public:
  explicit ReadRowsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    tf::OpInputList keys;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input_list("keys", &keys));
    tf::OpOutputList exist;
    tf::OpOutputList records;
    OP_REQUIRES_OK(ctx, ctx->output_list("exist", &exist));
    OP_REQUIRES_OK(ctx, ctx->output_list("records", &records));
    TfExecutor executor(ctx);
    for (int i = 0; i < keys.size(); ++i) {
      const int64_t n = keys[i].NumElements();
      RowsOfKeys rows;
      OP_REQUIRES_OK(
          ctx, ToTf(ReadRows(*tables[i], keys[i].flat<int64_t>().data(), n, &executor, &rows)));
      tf::Tensor* output = nullptr;
      OP_REQUIRES_OK(ctx, exist.allocate(i, {n}, &output));
      std::copy(rows.exist.begin(), rows.exist.end(), output->flat<bool>().data());
      OP_REQUIRES_OK(ctx, CopyToOutput(rows.records, {n, rows.record_floats}, i, &records));
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseReadRows").Device(tf::DEVICE_CPU), ReadRowsOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseReadRows")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("keys")
                            .HostMemory("exist")
                            .HostMemory("records"),
                        ReadRowsOp);

}  // namespace keras_sparse
