// KerasSparseEvict: drops the rows of tables that an eviction policy lets go.
#include <memory>
#include <string>
#include <vector>

#include "ops/tf/binding.h"
#include "ops/tf/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseEvict")
    .Attr("N: int >= 1")
    .Attr("policy: string")
    .Attr("constant_names: list(string)")
    .Input("handles: N * resource")
    .Input("constants: double")
    .Output("num_evicted: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->num_inputs() - 1));
      return absl::OkStatus();
    });

class EvictOp : public tf::OpKernel {
 public:
  explicit EvictOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("policy", &eviction_.policy));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("constant_names", &constant_names_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    EvictionOptions eviction = eviction_;
    OP_REQUIRES_OK(ctx, ReadConstants(ctx, constant_names_, &eviction.constants));
    std::unique_ptr<EvictionPolicy> policy;
    OP_REQUIRES_OK(ctx, ToTf(EvictionPolicy::Create(eviction, &policy)));
    tf::Tensor* num_evicted = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("num_evicted", {static_cast<int64_t>(tables.size())},
                                             &num_evicted));
    TfExecutor executor(ctx);
    for (size_t i = 0; i < tables.size(); ++i) {
      int64_t num_rows = 0;
      OP_REQUIRES_OK(ctx, ToTf(tables[i]->Evict(*policy, &executor, &num_rows)));
      num_evicted->flat<int64_t>()(static_cast<int64_t>(i)) = num_rows;
    }
  }

 private:
  EvictionOptions eviction_;
  std::vector<std::string> constant_names_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseEvict").Device(tf::DEVICE_CPU), EvictOp);

}  // namespace keras_sparse
