// KerasSparseImport: writes rows, with or without their slots, into tables.
#include "absl/strings/str_cat.h"
#include "ops/tf/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseImport")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Input("records: N * float")
    .Input("last_steps: N * int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class ImportOp : public tf::OpKernel {
 public:
  explicit ImportOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    tf::OpInputList keys;
    tf::OpInputList records;
    tf::OpInputList last_steps;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input_list("keys", &keys));
    OP_REQUIRES_OK(ctx, ctx->input_list("records", &records));
    OP_REQUIRES_OK(ctx, ctx->input_list("last_steps", &last_steps));
    TfExecutor executor(ctx);
    for (int i = 0; i < keys.size(); ++i) {
      const int64_t n = keys[i].NumElements();
      OP_REQUIRES(ctx, records[i].dims() == 2 && records[i].dim_size(0) == n,
                  absl::InvalidArgumentError(absl::StrCat(
                      "`records` must be (", n,
                      ", width). Received: records.shape=", records[i].shape().DebugString())));
      const int64_t num_steps = last_steps[i].NumElements();
      OP_REQUIRES(
          ctx, num_steps == 0 || num_steps == n,
          absl::InvalidArgumentError(absl::StrCat("`last_steps` must have one number a key, ", n,
                                                  ", or none. Received: ", num_steps)));
      OP_REQUIRES_OK(
          ctx, ToTf(tables[i]->Import(
                   keys[i].flat<int64_t>().data(), n, records[i].flat<float>().data(),
                   records[i].dim_size(1),
                   num_steps == 0 ? nullptr : last_steps[i].flat<int64_t>().data(), &executor)));
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseImport").Device(tf::DEVICE_CPU), ImportOp);

}  // namespace keras_sparse
