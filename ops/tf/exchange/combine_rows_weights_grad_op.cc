// KerasSparseCombineRowsWeightsGrad: the gradient of KerasSparseCombineRows with respect to its
// weights.
#include <memory>
#include <vector>

#include "ops/core/exchange/combine_rows.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/exchange/exchange_op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCombineRowsWeightsGrad")
    .Attr("N: int >= 1")
    .Attr("T: {float, half, bfloat16} = DT_FLOAT")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.KERAS_SPARSE_WORD_ATTR
    .Attr("input_tables: list(int)")
    .Attr("combiners: list(string)")
    // The first column of each input's gradient in its `output_grads`, if that has more columns.
    .Attr("columns: list(int) = []")
    .Input("output_grads: N * T")
    .Input("words: W")
    .Input("splits: int32")
    .Input("own_words: W")
    .Input("reply_rows: int64")
    .Input("positions: N * int32")
    .Input("position_splits: N * int64")
    .Input("scales: N * float")
    .Input("weights: N * float")
    .Output("weight_grads: N * float")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      std::vector<tf::shape_inference::ShapeHandle> weights;
      TF_RETURN_IF_ERROR(c->input("weights", &weights));
      return c->set_output("weight_grads", weights);
    });

class CombineRowsWeightsGradOp : public InputsExchangeOp {
 public:
  explicit CombineRowsWeightsGradOp(tf::OpKernelConstruction* ctx) : InputsExchangeOp(ctx) {
    if (!ctx->status().ok()) return;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("columns", &columns_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    std::unique_ptr<ExchangePlace> place;
    ResponseRows::Columns replies;
    CombinedInputs inputs;
    std::vector<GradientRows> output_grads;
    std::vector<float*> weight_grads;
    OP_REQUIRES_OK(ctx, ExchangePlace::Of(ctx, &place));
    OP_REQUIRES_OK(ctx, ReadReplies(ctx, place.get(), &inputs, &replies));
    OP_REQUIRES_OK(ctx, inputs.ReadGradients(ctx, layout_, columns_, &output_grads));
    for (size_t i = 0; i < inputs.inputs().size(); ++i) {
      const Bags& bags = inputs.inputs()[i].bags;
      OP_REQUIRES(ctx, bags.weights != nullptr || bags.num_ids == 0,
                  InvalidInput("`weights` must be given for every input"));
      tf::Tensor* grads = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(static_cast<int>(i), {bags.num_ids}, &grads));
      weight_grads.push_back(grads->flat<float>().data());
    }
    OP_REQUIRES_OK(ctx, ToTf(place->CombineWeightsGradient(layout_, replies, inputs.inputs(),
                                                           output_grads, weight_grads)));
  }

 private:
  std::vector<int64_t> columns_;
};

const RegisterOnCpuAndGpu<CombineRowsWeightsGradOp> kCombineRowsWeightsGrad(
    "KerasSparseCombineRowsWeightsGrad",
    {"splits", "reply_rows", "positions", "position_splits", "scales", "weights"}, "W");

}  // namespace keras_sparse
