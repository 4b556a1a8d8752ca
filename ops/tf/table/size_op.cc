// KerasSparseSize: rows of each table.
#include "ops/core/operations/read_stats.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseSize")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Output("sizes: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->num_inputs()));
      return absl::OkStatus();
    });

class SizeOp : public tf::OpKernel {
 public:
  explicit SizeOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    tf::Tensor* sizes = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {static_cast<int64_t>(tables.size())}, &sizes));
    for (size_t i = 0; i < tables.size(); ++i) sizes->flat<int64_t>()(i) = NumRowsOf(*tables[i]);
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseSize").Device(tf::DEVICE_CPU), SizeOp);
REGISTER_KERNEL_BUILDER(
    Name("KerasSparseSize").Device(tf::DEVICE_GPU).HostMemory("handles").HostMemory("sizes"),
    SizeOp);

}  // namespace keras_sparse
