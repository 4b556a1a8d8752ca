// KerasSparseClear: tables back to the state before training.
#include "ops/core/operations/clear_rows.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/binding/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseClear")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class ClearOp : public tf::OpKernel {
 public:
  explicit ClearOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    TfExecutor executor(ctx);
    for (size_t i = 0; i < tables.size(); ++i) {
      OP_REQUIRES_OK(ctx, ToTf(ClearRows(tables[i], &executor)));
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseClear").Device(tf::DEVICE_CPU), ClearOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseClear").Device(tf::DEVICE_GPU).HostMemory("handles"),
                        ClearOp);

}  // namespace keras_sparse
