// KerasSparseSetRowLimit: says how many rows tables may have.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/operations/check_room.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseSetRowLimit")
    .Attr("N: int >= 1")
    .Attr("max_rows: int")
    .Attr("policy: string")
    .Attr("constant_names: list(string)")
    .Input("handles: N * resource")
    .Input("constants: double")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class SetRowLimitOp : public tf::OpKernel {
 public:
  explicit SetRowLimitOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("max_rows", &max_rows_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("policy", &eviction_.policy));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("constant_names", &constant_names_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    EvictionOptions eviction = eviction_;
    OP_REQUIRES_OK(ctx, ReadConstants(ctx, constant_names_, &eviction.constants));
    for (size_t i = 0; i < tables.size(); ++i) {
      std::unique_ptr<EvictionPolicy> policy;
      if (!eviction.policy.empty()) {
        OP_REQUIRES_OK(ctx, ToTf(EvictionPolicy::Create(eviction, &policy)));
      }
      OP_REQUIRES_OK(ctx, ToTf(SetRowLimit(tables[i], max_rows_, std::move(policy))));
    }
  }

 private:
  int64_t max_rows_ = 0;
  EvictionOptions eviction_;  // no policy if its name is empty
  std::vector<std::string> constant_names_;
};

const RegisterOnCpuAndGpu<SetRowLimitOp> kSetRowLimit("KerasSparseSetRowLimit",
                                                      {"handles", "constants"});

}  // namespace keras_sparse
