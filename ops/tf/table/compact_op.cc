// KerasSparseCompact: bytes of rows that have gone leave the files of tables.
#include "ops/core/operations/evict_rows.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCompact")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class CompactOp : public tf::OpKernel {
 public:
  explicit CompactOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    for (size_t i = 0; i < tables.size(); ++i) {
      OP_REQUIRES_OK(ctx, ToTf(CompactTiers(*tables[i])));
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCompact").Device(tf::DEVICE_CPU), CompactOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseCompact").Device(tf::DEVICE_GPU).HostMemory("handles"),
                        CompactOp);

}  // namespace keras_sparse
