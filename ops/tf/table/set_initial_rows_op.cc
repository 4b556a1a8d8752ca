// KerasSparseSetInitialRows: what the keys without a row read as, from now on.
#include <vector>

#include "ops/core/operations/set_filter.h"
#include "ops/tf/binding/initializer_attributes.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseSetInitialRows")
    .Attr("N: int >= 1")
    .Attr("initializers: list(string)")
    .Attr("initializer_args: list(float)")
    .Attr("seeds: list(int)")
    .Attr("initializer_parts: list(int)")
    .Input("handles: N * resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class SetInitialRowsOp : public tf::OpKernel {
 public:
  explicit SetInitialRowsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadInitializers(ctx, &initializers_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    for (size_t i = 0; i < tables.size(); ++i) {
      OP_REQUIRES_OK(ctx, ToTf(SetInitializer(tables[i], initializers_[i])));
    }
  }

 private:
  std::vector<InitializerOptions> initializers_;
};

const RegisterOnCpuAndGpu<SetInitialRowsOp> kSetInitialRows("KerasSparseSetInitialRows",
                                                            {"handles"});

}  // namespace keras_sparse
