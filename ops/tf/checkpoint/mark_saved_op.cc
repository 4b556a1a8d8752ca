// KerasSparseMarkSaved: changes of the tables count from here on.
#include "ops/core/operations/table_snapshot.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseMarkSaved")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("versions: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class MarkSavedOp : public tf::OpKernel {
 public:
  explicit MarkSavedOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList list;
    OP_REQUIRES_OK(ctx, list.Read(ctx));
    const tf::Tensor* versions = nullptr;
    OP_REQUIRES_OK(ctx, ctx->input("versions", &versions));
    OP_REQUIRES(ctx, versions->NumElements() == static_cast<int64_t>(list.size()),
                InvalidInput("`versions` must have one number a table"));
    std::vector<EmbeddingTable*> tables;
    for (size_t i = 0; i < list.size(); ++i) tables.push_back(list[i]);
    const int64_t* first = versions->flat<int64_t>().data();
    OP_REQUIRES_OK(
        ctx, ToTf(TableSnapshot::MarkSaved(tables, {first, first + versions->NumElements()})));
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseMarkSaved").Device(tf::DEVICE_CPU), MarkSavedOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseMarkSaved")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("versions"),
                        MarkSavedOp);

}  // namespace keras_sparse
