// KerasSparseSetRule: lays the records of tables out for an optimizer's rule.
#include <string>
#include <vector>

#include "ops/tf/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseSetRule")
    .Attr("N: int >= 1")
    .Attr("rule: string")
    .Input("handles: N * resource")
    .Input("slot_initial_values: float")
    .Output("generations: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int64_t n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      c->set_output(0, c->Vector(n));
      return absl::OkStatus();
    });

class SetRuleOp : public tf::OpKernel {
 public:
  explicit SetRuleOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rule", &rule_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    const tf::Tensor* values = nullptr;
    OP_REQUIRES_OK(ctx, ctx->input("slot_initial_values", &values));
    const auto flat = values->flat<float>();
    const std::vector<float> slots(flat.data(), flat.data() + flat.size());
    tf::Tensor* generations = nullptr;
    OP_REQUIRES_OK(ctx,
                   ctx->allocate_output(0, {static_cast<int64_t>(tables.size())}, &generations));
    TfExecutor executor(ctx);
    for (size_t i = 0; i < tables.size(); ++i) {
      OP_REQUIRES_OK(ctx, ToTf(tables[i]->SetRule(rule_, slots, &executor,
                                                  generations->flat<int64_t>().data() + i)));
    }
  }

 private:
  std::string rule_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseSetRule").Device(tf::DEVICE_CPU), SetRuleOp);

}  // namespace keras_sparse
