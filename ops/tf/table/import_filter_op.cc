// KerasSparseImportFilter: writes entries into the admission filters of tables.
#include "absl/strings/str_cat.h"
#include "ops/core/operations/set_filter.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseImportFilter")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Input("counts: N * uint32")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class ImportFilterOp : public tf::OpKernel {
 public:
  explicit ImportFilterOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    tf::OpInputList keys;
    tf::OpInputList counts;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input_list("keys", &keys));
    OP_REQUIRES_OK(ctx, ctx->input_list("counts", &counts));
    for (int i = 0; i < keys.size(); ++i) {
      const int64_t n = keys[i].NumElements();
      OP_REQUIRES(ctx, counts[i].NumElements() == n,
                  InvalidInput(absl::StrCat("`counts` must have one number a key, ", n,
                                            ". Received: ", counts[i].NumElements())));
      OP_REQUIRES_OK(
          ctx, ToTf(ImportFilter(tables[static_cast<size_t>(i)], keys[i].flat<int64_t>().data(),
                                 counts[i].flat<uint32_t>().data(), n)));
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseImportFilter").Device(tf::DEVICE_CPU), ImportFilterOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseImportFilter")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("keys")
                            .HostMemory("counts"),
                        ImportFilterOp);

}  // namespace keras_sparse
