// KerasSparseErasedKeys: the keys whose rows have gone since the table was saved.
#include <algorithm>

#include "ops/core/operations/table_snapshot.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseErasedKeys")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Output("keys: N * int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    });

class ErasedKeysOp : public tf::OpKernel {
 public:
  explicit ErasedKeysOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    for (size_t i = 0; i < tables.size(); ++i) {
      const std::vector<int64_t> erased = TableSnapshot(tables[i]).ErasedKeys();
      tf::Tensor* keys = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(static_cast<int>(i),
                                               {static_cast<int64_t>(erased.size())}, &keys));
      std::copy(erased.begin(), erased.end(), keys->flat<int64_t>().data());
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseErasedKeys").Device(tf::DEVICE_CPU), ErasedKeysOp);
REGISTER_KERNEL_BUILDER(
    Name("KerasSparseErasedKeys").Device(tf::DEVICE_GPU).HostMemory("handles").HostMemory("keys"),
    ErasedKeysOp);

}  // namespace keras_sparse
