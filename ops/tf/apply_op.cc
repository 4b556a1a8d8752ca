// KerasSparseApply: one optimizer step on the rows of a batch, all tables at once.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/apply.h"
#include "ops/tf/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseApply")
    .Attr("N: int >= 1")
    .Attr("rule: string")
    .Input("handles: N * resource")
    .Input("ids: N * int64")
    .Input("values: N * float")
    .Input("numbers: float")
    .Input("step: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class ApplyOp : public tf::OpKernel {
 public:
  explicit ApplyOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rule", &rule_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    tf::OpInputList ids;
    tf::OpInputList values;
    const tf::Tensor* numbers = nullptr;
    const tf::Tensor* step = nullptr;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->input_list("ids", &ids));
    OP_REQUIRES_OK(ctx, ctx->input_list("values", &values));
    OP_REQUIRES_OK(ctx, ctx->input("numbers", &numbers));
    OP_REQUIRES_OK(ctx, ctx->input("step", &step));
    OP_REQUIRES(
        ctx, step->NumElements() == 1,
        absl::InvalidArgumentError(absl::StrCat("`step` must be one number. Received: step.shape=",
                                                step->shape().DebugString())));
    std::vector<ApplyRequest> requests;
    for (int i = 0; i < ids.size(); ++i) {
      const tf::TensorShape expected({ids[i].NumElements(), tables[i]->dim()});
      OP_REQUIRES(
          ctx, values[i].shape() == expected,
          absl::InvalidArgumentError(absl::StrCat(
              "`values` of table '", tables[i]->name(), "' must be ", expected.DebugString(),
              ". Received: values.shape=", values[i].shape().DebugString())));
      requests.push_back({tables[i], ids[i].flat<int64_t>().data(), ids[i].NumElements(),
                          values[i].flat<float>().data()});
    }
    const auto flat = numbers->flat<float>();
    const StepNumbers step_numbers = {rule_, step->flat<int64_t>()(0),
                                      std::vector<float>(flat.data(), flat.data() + flat.size())};
    TfExecutor executor(ctx);
    OP_REQUIRES_OK(ctx, ToTf(ApplyGradients(requests, step_numbers, &executor)));
  }

 private:
  std::string rule_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseApply").Device(tf::DEVICE_CPU), ApplyOp);

}  // namespace keras_sparse
