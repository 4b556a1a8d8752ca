// KerasSparseReturnGradients: gradients of the outputs of many inputs -> what each rank gets of
// them.
#include <vector>

#include "ops/core/exchange/return_gradients.h"
#include "ops/tf/exchange_inputs.h"
#include "ops/tf/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseReturnGradients")
    .Attr("N: int >= 1")
    .KERAS_SPARSE_LAYOUT_ATTRS.Attr("input_tables: list(int)")
    .Attr("combiners: list(string)")
    .Attr("scale: float")
    .Input("output_grads: N * float")
    .Input("reply_rows: int64")
    .Input("positions: N * int32")
    .Input("position_splits: N * int64")
    .Input("scales: N * float")
    .Input("weights: N * float")
    .Output("words: int32")
    .Output("splits: int32")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    });

class ReturnGradientsOp : public tf::OpKernel {
 public:
  explicit ReturnGradientsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadLayout(ctx, &layout_));
    OP_REQUIRES_OK(ctx, ReadInputTables(ctx, &input_tables_));
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("scale", &scale_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    CombinedInputs inputs;
    std::vector<const float*> grads;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, layout_, input_tables_, combiners_));
    OP_REQUIRES_OK(ctx, inputs.ReadGradients(ctx, layout_, &grads));
    std::vector<int64_t> num_words;
    for (size_t r = 0; r < layout_.num_ranks; ++r) num_words.push_back(inputs.rows().num_floats(r));
    BlockOutputs blocks;
    OP_REQUIRES_OK(ctx, blocks.Allocate(ctx, num_words));
    std::vector<float*> floats;
    for (Word* block : blocks.Blocks()) floats.push_back(reinterpret_cast<float*>(block));
    TfExecutor executor(ctx);
    ReturnGradients(layout_, inputs.rows(), inputs.inputs(), grads, scale_,
                    inputs.rows().Columns(floats), &executor);
    blocks.Set(ctx, 0);
  }

 private:
  ExchangeLayout layout_;
  std::vector<size_t> input_tables_;
  std::vector<Combiner> combiners_;
  float scale_ = 1;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseReturnGradients").Device(tf::DEVICE_CPU),
                        ReturnGradientsOp);

}  // namespace keras_sparse
