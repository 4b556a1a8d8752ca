// KerasSparseCombineRowsWeightsGrad: the gradient of KerasSparseCombineRows by its weights.
#include <vector>

#include "ops/core/exchange/combine_rows.h"
#include "ops/tf/exchange_inputs.h"
#include "ops/tf/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCombineRowsWeightsGrad")
    .Attr("N: int >= 1")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.Attr("input_tables: list(int)")
    .Attr("combiners: list(string)")
    .Input("output_grads: N * float")
    .Input("words: int32")
    .Input("splits: int32")
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

class CombineRowsWeightsGradOp : public tf::OpKernel {
 public:
  explicit CombineRowsWeightsGradOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadLayout(ctx, &layout_));
    OP_REQUIRES_OK(ctx, ReadWireType(ctx, &wire_type_));
    OP_REQUIRES_OK(ctx, ReadInputTables(ctx, &input_tables_));
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    BlockInputs blocks;
    ReceivedFloats received;
    CombinedInputs inputs;
    std::vector<const float*> output_grads;
    std::vector<float*> weight_grads;
    OP_REQUIRES_OK(ctx, blocks.Read(ctx, layout_.num_ranks));
    OP_REQUIRES_OK(ctx, ToTf(CheckBlocks(layout_, blocks.words, blocks.num_words, blocks.splits)));
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, layout_, input_tables_, combiners_));
    OP_REQUIRES_OK(ctx, inputs.ReadGradients(ctx, layout_, &output_grads));
    OP_REQUIRES_OK(
        ctx, received.Read(ctx, blocks, kHeaderWords, wire_type_, inputs.rows().num_floats()));
    for (size_t i = 0; i < inputs.inputs().size(); ++i) {
      const Bags& bags = inputs.inputs()[i].bags;
      OP_REQUIRES(ctx, bags.weights != nullptr || bags.num_ids == 0,
                  InvalidInput("`weights` must be given for every input"));
      tf::Tensor* grads = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(static_cast<int>(i), {bags.num_ids}, &grads));
      weight_grads.push_back(grads->flat<float>().data());
    }
    TfExecutor executor(ctx);
    CombineWeightsGradient(layout_, inputs.rows().Columns(received.floats()), inputs.inputs(),
                           output_grads, weight_grads, &executor);
  }

 private:
  ExchangeLayout layout_;
  WireType wire_type_ = WireType::kFloat32;
  std::vector<size_t> input_tables_;
  std::vector<Combiner> combiners_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCombineRowsWeightsGrad").Device(tf::DEVICE_CPU),
                        CombineRowsWeightsGradOp);

}  // namespace keras_sparse
