// KerasSparseSetFilter: gives tables an admission filter.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/operations/set_filter.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseSetFilter")
    .Attr("N: int >= 1")
    .Attr("filter: string")
    .Attr("constant_names: list(string)")
    .Attr("seeds: list(int)")
    .Attr("reads_initial_rows: bool")
    .Attr("default_value: float")
    .Input("handles: N * resource")
    .Input("constants: double")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class SetFilterOp : public tf::OpKernel {
 public:
  explicit SetFilterOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    int n = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("filter", &filter_.filter));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("constant_names", &constant_names_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seeds", &seeds_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reads_initial_rows", &filter_.reads_initial_rows));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("default_value", &filter_.default_value));
    OP_REQUIRES(ctx, static_cast<int>(seeds_.size()) == n,
                InvalidInput(absl::StrCat("`seeds` must have one number a table, ", n,
                                          ". Received: ", seeds_.size())));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    FilterOptions filter = filter_;
    OP_REQUIRES_OK(ctx, ReadConstants(ctx, constant_names_, &filter.constants));
    for (size_t i = 0; i < tables.size(); ++i) {
      filter.seed = seeds_[i];
      OP_REQUIRES_OK(ctx, ToTf(SetFilter(tables[i], filter)));
    }
  }

 private:
  FilterOptions filter_;
  std::vector<std::string> constant_names_;
  std::vector<int64_t> seeds_;
};

const RegisterOnCpuAndGpu<SetFilterOp> kSetFilter("KerasSparseSetFilter", {"handles", "constants"});

}  // namespace keras_sparse
