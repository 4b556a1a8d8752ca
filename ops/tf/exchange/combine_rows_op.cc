// KerasSparseCombineRows: the rows received from ranks -> the outputs of many inputs.
#include <memory>
#include <vector>

#include "ops/core/exchange/combine_rows.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/lookup_outputs.h"
#include "ops/tf/exchange/exchange_op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCombineRows")
    .Attr("N: int >= 1")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.KERAS_SPARSE_WORD_ATTR
    .Attr("input_tables: list(int)")
    .Attr("combiners: list(string)")
    .Attr("output_dims: list(int)")
    // N, or 1 for the rows of all inputs side by side.
    .Attr("num_outputs: int >= 1")
    .Attr("out_type: {float, half, bfloat16} = DT_FLOAT")
    .Input("words: W")
    .Input("splits: int32")
    .Input("own_words: W")
    .Input("reply_rows: int64")
    .Input("positions: N * int32")
    .Input("position_splits: N * int64")
    .Input("scales: N * float")
    .Input("weights: N * float")
    .Output("rows: num_outputs * out_type")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      return SetShapesOfRows(c, "positions", "position_splits");
    });

class CombineRowsOp : public InputsExchangeOp {
 public:
  explicit CombineRowsOp(tf::OpKernelConstruction* ctx) : InputsExchangeOp(ctx) {
    if (!ctx->status().ok()) return;
    OP_REQUIRES_OK(ctx, ReadOutputForm(ctx, input_tables_.size(), &form_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    std::unique_ptr<ExchangePlace> place;
    ResponseRows::Columns replies;
    CombinedInputs inputs;
    OP_REQUIRES_OK(ctx, ExchangePlace::Of(ctx, &place));
    OP_REQUIRES_OK(ctx, ReadReplies(ctx, place.get(), &inputs, &replies));
    std::vector<RowsShape> shapes;
    for (const CombinedInput& input : inputs.inputs()) {
      shapes.push_back({input.bags.num_bags, layout_.tables[input.table].dim});
    }
    OutputRows plan;
    std::vector<tf::Tensor> outputs;
    std::vector<OutputRows> rows;
    OP_REQUIRES_OK(ctx, PlanRows(shapes, form_, &plan));
    OP_REQUIRES_OK(ctx, AllocateRows(shapes, plan, &outputs, &rows, place->memory()));
    OP_REQUIRES_OK(ctx, ToTf(place->CombineRows(layout_, replies, inputs.inputs(), rows)));
    for (size_t i = 0; i < outputs.size(); ++i) ctx->set_output(static_cast<int>(i), outputs[i]);
  }

 private:
  OutputForm form_;
};

const RegisterOnCpuAndGpu<CombineRowsOp> kCombineRows("KerasSparseCombineRows",
                                                      {"splits", "reply_rows", "positions",
                                                       "position_splits", "scales", "weights"},
                                                      "W");

}  // namespace keras_sparse
