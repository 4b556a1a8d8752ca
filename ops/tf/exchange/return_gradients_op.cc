// KerasSparseReturnGradients: gradients of the outputs of many inputs -> what each rank gets of
// them.
#include <vector>

#include "ops/core/exchange/return_gradients.h"
#include "ops/tf/binding/tf_executor.h"
#include "ops/tf/exchange/exchange_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseReturnGradients")
    .Attr("N: int >= 1")
    .Attr("T: {float, half, bfloat16} = DT_FLOAT")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.Attr("input_tables: list(int)")
    .Attr("combiners: list(string)")
    // The first column of each input's gradient in its `output_grads`, where that has more.
    .Attr("columns: list(int) = []")
    .Attr("scale: float")
    .Input("output_grads: N * T")
    .Input("reply_rows: int64")
    .Input("positions: N * int32")
    .Input("position_splits: N * int64")
    .Input("scales: N * float")
    .Input("weights: N * float")
    .Output("words: int32")
    .Output("splits: int32")
    .Output("own_words: int32")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      for (int i = 0; i < 3; ++i) c->set_output(i, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    });

class ReturnGradientsOp : public InputsExchangeOp {
 public:
  explicit ReturnGradientsOp(tf::OpKernelConstruction* ctx) : InputsExchangeOp(ctx) {
    if (!ctx->status().ok()) return;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("scale", &scale_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("columns", &columns_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    CombinedInputs inputs;
    std::vector<GradientRows> grads;
    OP_REQUIRES_OK(ctx, ReadInputs(ctx, &inputs));
    OP_REQUIRES_OK(ctx, inputs.ReadGradients(ctx, layout_, columns_, &grads));
    const std::vector<int64_t>& num_floats = inputs.rows().num_floats();
    BlockOutputs blocks(layout_);
    std::vector<float*> floats;
    OP_REQUIRES_OK(ctx, blocks.AllocateFloats(kHeaderWords, wire_type_, num_floats, &floats));
    for (Word* block : blocks.Blocks()) WriteStatus(Status::Ok(), layout_.checksum, block);
    TfExecutor executor(ctx);
    ReturnGradients(layout_, inputs.rows(), inputs.inputs(), grads, scale_,
                    inputs.rows().Columns(floats), &executor);
    blocks.EncodeFloats(kHeaderWords, wire_type_, num_floats, floats);
    blocks.tensors().SetOutputs(ctx, 0);
  }

 private:
  float scale_ = 1;
  std::vector<int64_t> columns_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseReturnGradients").Device(tf::DEVICE_CPU),
                        ReturnGradientsOp);

}  // namespace keras_sparse
