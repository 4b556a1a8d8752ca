// KerasSparseSetInitialRows: what the keys without a row read as, from now on.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/tf/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseSetInitialRows")
    .Attr("N: int >= 1")
    .Attr("initializers: list(string)")
    .Attr("initializer_args: list(float)")
    .Attr("seeds: list(int)")
    .Input("handles: N * resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class SetInitialRowsOp : public tf::OpKernel {
 public:
  explicit SetInitialRowsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    int n = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("initializers", &initializers_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("initializer_args", &args_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seeds", &seeds_));
    const auto size = static_cast<size_t>(n);
    OP_REQUIRES(
        ctx, initializers_.size() == size && args_.size() == 2 * size && seeds_.size() == size,
        absl::InvalidArgumentError(absl::StrCat(
            "every list must have one entry a table, `initializer_args` two. Received: N=", n)));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    for (size_t i = 0; i < tables.size(); ++i) {
      OP_REQUIRES_OK(ctx, ToTf(tables[i]->SetInitializer(initializers_[i], args_[2 * i],
                                                         args_[2 * i + 1], seeds_[i])));
    }
  }

 private:
  std::vector<std::string> initializers_;
  std::vector<float> args_;
  std::vector<int64_t> seeds_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseSetInitialRows").Device(tf::DEVICE_CPU), SetInitialRowsOp);

}  // namespace keras_sparse
