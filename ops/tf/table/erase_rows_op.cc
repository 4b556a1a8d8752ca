// KerasSparseEraseRows: drops rows of tables by their keys.
#include "ops/core/operations/evict_rows.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/binding/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseEraseRows")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class EraseRowsOp : public tf::OpKernel {
 public:
  explicit EraseRowsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    tf::OpInputList keys;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input_list("keys", &keys));
    TfExecutor executor(ctx);
    for (int i = 0; i < keys.size(); ++i) {
      OP_REQUIRES_OK(ctx, ToTf(EraseRows(tables[i], keys[i].flat<int64_t>().data(),
                                         keys[i].NumElements(), &executor)));
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseEraseRows").Device(tf::DEVICE_CPU), EraseRowsOp);
REGISTER_KERNEL_BUILDER(
    Name("KerasSparseEraseRows").Device(tf::DEVICE_GPU).HostMemory("handles").HostMemory("keys"),
    EraseRowsOp);

}  // namespace keras_sparse
