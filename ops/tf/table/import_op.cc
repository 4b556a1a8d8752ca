// KerasSparseImport: writes rows, with or without their slots, into tables.
#include "absl/strings/str_cat.h"
#include "ops/core/operations/import_rows.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/binding/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseImport")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Input("records: N * float")
    .Input("ages: N * uint32")  // empty for ages of 0
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class ImportOp : public tf::OpKernel {
 public:
  explicit ImportOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    tf::OpInputList keys;
    tf::OpInputList records;
    tf::OpInputList ages;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input_list("keys", &keys));
    OP_REQUIRES_OK(ctx, ctx->input_list("records", &records));
    OP_REQUIRES_OK(ctx, ctx->input_list("ages", &ages));
    TfExecutor executor(ctx);
    for (int i = 0; i < keys.size(); ++i) {
      const int64_t n = keys[i].NumElements();
      OP_REQUIRES_OK(ctx, CheckRecordsShape(records[i], n));
      const int64_t num_ages = ages[i].NumElements();
      OP_REQUIRES(ctx, num_ages == n || num_ages == 0,
                  InvalidInput(absl::StrCat("`ages` must have one number a key, ", n,
                                            ", or none. Received: ", num_ages)));
      OP_REQUIRES_OK(
          ctx, ToTf(ImportRows(tables[i], keys[i].flat<int64_t>().data(), n,
                               records[i].flat<float>().data(), records[i].dim_size(1), &executor,
                               num_ages == 0 ? nullptr : ages[i].flat<uint32_t>().data())));
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseImport").Device(tf::DEVICE_CPU), ImportOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseImport")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("keys")
                            .HostMemory("records")
                            .HostMemory("ages"),
                        ImportOp);

}  // namespace keras_sparse
