// KerasSparseRestore: clears a table and goes on after the steps of a saved one.
#include "ops/core/operations/clear_rows.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/binding/history_inputs.h"
#include "ops/tf/binding/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseRestore")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .KERAS_SPARSE_HISTORY_INPUTS.SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class RestoreOp : public tf::OpKernel {
 public:
  explicit RestoreOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    RuleHistory history;
    OP_REQUIRES_OK(ctx, ReadHistory(ctx, &history));
    TfExecutor executor(ctx);
    for (size_t i = 0; i < tables.size(); ++i) {
      OP_REQUIRES_OK(ctx, ToTf(RestoreSteps(tables[i], history, &executor)));
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseRestore").Device(tf::DEVICE_CPU), RestoreOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseRestore")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("step")
                            .HostMemory("first_step")
                            .HostMemory("table_step")
                            .HostMemory("run_lengths")
                            .HostMemory("numbers"),
                        RestoreOp);

}  // namespace keras_sparse
