// KerasSparseHaveRows: which keys have a row.
#include <vector>

#include "ops/core/operations/export_rows.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseHaveRows")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Output("exist: N * bool")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      for (int i = 0; i < n; ++i) c->set_output(i, c->Vector(c->NumElements(c->input(n + i))));
      return absl::OkStatus();
    });

class HaveRowsOp : public tf::OpKernel {
 public:
  explicit HaveRowsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    tf::OpInputList keys;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input_list("keys", &keys));
    tf::OpOutputList exist;
    OP_REQUIRES_OK(ctx, ctx->output_list("exist", &exist));
    for (int i = 0; i < keys.size(); ++i) {
      const int64_t* first = keys[i].flat<int64_t>().data();
      const int64_t n = keys[i].NumElements();
      std::vector<bool> have;
      OP_REQUIRES_OK(ctx, ToTf(HaveRows(*tables[i], {first, first + n}, &have)));
      OP_REQUIRES_OK(ctx, CopyToOutput(have, {n}, i, &exist));
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseHaveRows").Device(tf::DEVICE_CPU), HaveRowsOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseHaveRows")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("keys")
                            .HostMemory("exist"),
                        HaveRowsOp);

}  // namespace keras_sparse
