// KerasSparseLookupWeightsGrad: the gradient of pooled lookups with respect to the weights of ids.
#include <vector>

#include "ops/core/operations/lookup.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseLookupWeightsGrad")
    .Attr("N: int >= 1")
    .Attr("T: {float, half, bfloat16} = DT_FLOAT")
    .Attr("combiners: list(string)")
    .Attr("output_dims: list(int)")
    // The first column of each table's gradient in its `output_grads`, if that has more columns.
    .Attr("columns: list(int) = []")
    .Input("handles: N * resource")
    .Input("ids: N * int64")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Input("output_grads: N * T")
    .Input("versions: int64")
    .Output("weight_grads: N * float")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      std::vector<tf::shape_inference::ShapeHandle> ids;
      TF_RETURN_IF_ERROR(c->input("ids", &ids));
      for (size_t i = 0; i < ids.size(); ++i) c->set_output(static_cast<int>(i), ids[i]);
      return absl::OkStatus();
    });

class LookupWeightsGradOp : public tf::OpKernel {
 public:
  explicit LookupWeightsGradOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("columns", &columns_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    BagInputs inputs;
    std::vector<OutputGradient> gradients;
    const tf::Tensor* versions = nullptr;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, combiners_));
    OP_REQUIRES_OK(ctx, ReadOutputGradients(ctx, inputs, columns_, DimsOf(tables), &gradients));
    OP_REQUIRES_OK(ctx, ctx->input("versions", &versions));
    OP_REQUIRES(ctx, versions->NumElements() == static_cast<int64_t>(tables.size()),
                InvalidInput("`versions` must have one number a table"));
    std::vector<WeightsGradientRequest> requests;
    for (size_t t = 0; t < tables.size(); ++t) {
      const OutputGradient& gradient = gradients[t];
      const Bags& bags = gradient.bags;
      OP_REQUIRES(ctx, bags.weights != nullptr || bags.num_ids == 0,
                  InvalidInput("`weights` must be given to have a gradient"));
      tf::Tensor* weight_grads = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(static_cast<int>(t), {bags.num_ids}, &weight_grads));
      requests.push_back({tables[t], gradient.ids, bags, gradient.grads,
                          weight_grads->flat<float>().data(),
                          versions->flat<int64_t>()(static_cast<int64_t>(t))});
    }
    TfExecutor executor(ctx);
    OP_REQUIRES_OK(ctx, ToTf(LookupWeightsGradient(requests, &executor)));
  }

 private:
  std::vector<Combiner> combiners_;
  std::vector<int64_t> columns_;
};

const RegisterOnCpuAndGpu<LookupWeightsGradOp> kLookupWeightsGrad("KerasSparseLookupWeightsGrad",
                                                                  {"handles", "versions"});

}  // namespace keras_sparse
