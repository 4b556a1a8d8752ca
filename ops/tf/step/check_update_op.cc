// KerasSparseCheckUpdate: whether tables would refuse an update, for a step of several ops.
#include "ops/core/operations/check_room.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/binding/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCheckUpdate")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("ids: N * int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class CheckUpdateOp : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    tf::OpInputList ids;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input_list("ids", &ids));
    TfExecutor executor(ctx);
    for (int i = 0; i < ids.size(); ++i) {
      EmbeddingTable* table = tables[static_cast<size_t>(i)];
      OP_REQUIRES_OK(ctx, ToTf(CheckUpdate(table, ids[i].flat<int64_t>().data(),
                                           ids[i].NumElements(), &executor)));
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCheckUpdate").Device(tf::DEVICE_CPU), CheckUpdateOp);
REGISTER_KERNEL_BUILDER(
    Name("KerasSparseCheckUpdate").Device(tf::DEVICE_GPU).HostMemory("handles").HostMemory("ids"),
    CheckUpdateOp);

}  // namespace keras_sparse
