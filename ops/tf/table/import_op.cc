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
    .Input("ages: N * uint32")         // empty for ages of 0
    .Input("frequencies: N * uint32")  // empty for those that rows have
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
    tf::OpInputList frequencies;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input_list("keys", &keys));
    OP_REQUIRES_OK(ctx, ctx->input_list("records", &records));
    OP_REQUIRES_OK(ctx, ctx->input_list("ages", &ages));
    OP_REQUIRES_OK(ctx, ctx->input_list("frequencies", &frequencies));
    TfExecutor executor(ctx);
    for (int i = 0; i < keys.size(); ++i) {
      const int64_t n = keys[i].NumElements();
      OP_REQUIRES_OK(ctx, CheckRecordsShape(records[i], n));
      const uint32_t* age = nullptr;
      const uint32_t* frequency = nullptr;
      OP_REQUIRES_OK(ctx, ReadWords("ages", ages[i], n, &age));
      OP_REQUIRES_OK(ctx, ReadWords("frequencies", frequencies[i], n, &frequency));
      OP_REQUIRES_OK(ctx, ToTf(ImportRows(tables[i], keys[i].flat<int64_t>().data(), n,
                                          records[i].flat<float>().data(), records[i].dim_size(1),
                                          &executor, age, frequency)));
    }
  }

 private:
  // One word a key, or null.
  static absl::Status ReadWords(const char* name, const tf::Tensor& tensor, int64_t n,
                                const uint32_t** words) {
    const int64_t size = tensor.NumElements();
    if (size != n && size != 0) {
      return InvalidInput(absl::StrCat("`", name, "` must have one number a key, ", n,
                                       ", or none. Received: ", size));
    }
    if (size > 0) *words = tensor.flat<uint32_t>().data();
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseImport").Device(tf::DEVICE_CPU), ImportOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseImport")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("keys")
                            .HostMemory("records")
                            .HostMemory("ages")
                            .HostMemory("frequencies"),
                        ImportOp);

}  // namespace keras_sparse
