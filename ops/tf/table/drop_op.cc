// KerasSparseDrop: a handle -> drops its object, even if other handles remain.
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseDrop")
    .Input("handle: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeDrop(tf::OpKernelContext* ctx) {
  auto* resource = dynamic_cast<DroppableResource*>(tf::HandleFromInput(ctx, 0).resource().get());
  if (resource == nullptr) {
    return InvalidInput("`handle` must be that of a table or a vocabulary");
  }
  resource->Drop();
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<CallOp<ComputeDrop>> kDrop("KerasSparseDrop", {"handle"});

}  // namespace keras_sparse
