// KerasSparsePromote: brings rows of tables from lower tiers into the first one.
#include "ops/core/operations/import_rows.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/binding/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparsePromote")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Output("num_promoted: int64")
    .Output("versions: int64")  // (N, 2), of each table before and after
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      c->set_output(0, c->Vector(n));
      c->set_output(1, c->Matrix(n, 2));
      return absl::OkStatus();
    });

class PromoteOp : public tf::OpKernel {
 public:
  explicit PromoteOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    tf::OpInputList keys;
    tf::Tensor* num_promoted = nullptr;
    tf::Tensor* versions = nullptr;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input_list("keys", &keys));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {keys.size()}, &num_promoted));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {keys.size(), 2}, &versions));
    TfExecutor executor(ctx);
    for (int i = 0; i < keys.size(); ++i) {
      Promotion promotion;
      OP_REQUIRES_OK(ctx, ToTf(PromoteRows(tables[i], keys[i].flat<int64_t>().data(),
                                           keys[i].NumElements(), &executor, &promotion)));
      num_promoted->flat<int64_t>()(i) = promotion.num_rows;
      versions->matrix<int64_t>()(i, 0) = promotion.version_before;
      versions->matrix<int64_t>()(i, 1) = promotion.version;
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparsePromote").Device(tf::DEVICE_CPU), PromoteOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparsePromote")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("keys")
                            .HostMemory("num_promoted")
                            .HostMemory("versions"),
                        PromoteOp);

}  // namespace keras_sparse
