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
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

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
    TfExecutor executor(ctx);
    for (size_t i = 0; i < tables.size(); ++i) {
      OP_REQUIRES_OK(ctx, ToTf(tables[i]->SetRule(rule_, slots, &executor)));
    }
  }

 private:
  std::string rule_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseSetRule").Device(tf::DEVICE_CPU), SetRuleOp);

}  // namespace keras_sparse
