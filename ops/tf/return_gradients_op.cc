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
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.Attr("input_tables: list(int)")
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
    OP_REQUIRES_OK(ctx, ReadWireType(ctx, &wire_type_));
    OP_REQUIRES_OK(ctx, ReadInputTables(ctx, &input_tables_));
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("scale", &scale_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    CombinedInputs inputs;
    std::vector<const float*> grads;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, layout_, input_tables_, combiners_));
    OP_REQUIRES_OK(ctx, inputs.ReadGradients(ctx, layout_, &grads));
    const std::vector<int64_t>& num_floats = inputs.rows().num_floats();
    BlockOutputs blocks;
    std::vector<float*> floats;
    OP_REQUIRES_OK(ctx, blocks.AllocateFloats(ctx, 0, wire_type_, num_floats, &floats));
    TfExecutor executor(ctx);
    ReturnGradients(layout_, inputs.rows(), inputs.inputs(), grads, scale_,
                    inputs.rows().Columns(floats), &executor);
    blocks.EncodeFloats(0, wire_type_, num_floats, floats);
    blocks.Set(ctx, 0);
  }

 private:
  ExchangeLayout layout_;
  WireType wire_type_ = WireType::kFloat32;
  std::vector<size_t> input_tables_;
  std::vector<Combiner> combiners_;
  float scale_ = 1;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseReturnGradients").Device(tf::DEVICE_CPU),
                        ReturnGradientsOp);

}  // namespace keras_sparse
