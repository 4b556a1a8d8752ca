// KerasSparseDrop: a handle -> its object ends, whoever still has the handle.
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseDrop")
    .Input("handle: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class DropOp : public tf::OpKernel {
 public:
  explicit DropOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    auto* resource = dynamic_cast<DroppableResource*>(tf::HandleFromInput(ctx, 0).resource().get());
    OP_REQUIRES(ctx, resource != nullptr,
                InvalidInput("`handle` must be that of a table or a vocabulary"));
    resource->Drop();
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseDrop").Device(tf::DEVICE_CPU), DropOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseDrop").Device(tf::DEVICE_GPU).HostMemory("handle"),
                        DropOp);

}  // namespace keras_sparse
