// KerasSparseReturnGradients: the gradients of the outputs of many inputs -> the gradients for each
// rank.
#include <memory>
#include <vector>

#include "ops/core/exchange/return_gradients.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/exchange/exchange_op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseReturnGradients")
    .Attr("N: int >= 1")
    .Attr("T: {float, half, bfloat16} = DT_FLOAT")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.KERAS_SPARSE_WORD_ATTR
    .Attr("input_tables: list(int)")
    .Attr("combiners: list(string)")
    // The first column of each input's gradient in its `output_grads`, if that has more columns.
    .Attr("columns: list(int) = []")
    .Attr("scale: float")
    .Input("output_grads: N * T")
    .Input("reply_rows: int64")
    .Input("positions: N * int32")
    .Input("position_splits: N * int64")
    .Input("scales: N * float")
    .Input("weights: N * float")
    .Output("words: W")
    .Output("splits: int32")
    .Output("own_words: W")
    .SetShapeFn(VectorShapes);

class ReturnGradientsOp : public InputsExchangeOp {
 public:
  explicit ReturnGradientsOp(tf::OpKernelConstruction* ctx) : InputsExchangeOp(ctx) {
    if (!ctx->status().ok()) return;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("scale", &scale_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("columns", &columns_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    std::unique_ptr<ExchangePlace> place;
    OP_REQUIRES_OK(ctx, ExchangePlace::Of(ctx, &place));
    BlockOutputs blocks(layout_, place->memory());
    const Status status = FromTf(MakeBlocks(ctx, place.get(), &blocks));
    if (!status.ok()) OP_REQUIRES_OK(ctx, SendError(status, place.get(), &blocks));
    blocks.tensors().SetOutputs(ctx, 0);
  }

 private:
  absl::Status MakeBlocks(tf::OpKernelContext* ctx, ExchangePlace* place,
                          BlockOutputs* blocks) const {
    CombinedInputs inputs;
    std::vector<GradientRows> grads;
    TF_RETURN_IF_ERROR(ReadInputs(ctx, &inputs));
    TF_RETURN_IF_ERROR(inputs.ReadGradients(ctx, layout_, columns_, &grads));
    const std::vector<int64_t>& num_floats = inputs.rows().num_floats();
    std::vector<void*> floats;
    TF_RETURN_IF_ERROR(Allocate(num_floats, place, blocks, &floats));
    TF_RETURN_IF_ERROR(ToTf(place->WriteHeaders(layout_, blocks->Blocks())));
    const FloatType type = place->is_gpu() ? wire_type_ : FloatType::kFloat32;
    const auto columns = inputs.rows().GradientColumns(floats, type);
    TF_RETURN_IF_ERROR(ToTf(
        place->ReturnGradients(layout_, inputs.rows(), inputs.inputs(), grads, scale_, columns)));
    if (!place->is_gpu()) blocks->EncodeFloats(kHeaderWords, wire_type_, num_floats, floats);
    return absl::OkStatus();
  }

  absl::Status Allocate(const std::vector<int64_t>& num_floats, ExchangePlace* place,
                        BlockOutputs* blocks, std::vector<void*>* floats) const {
    if (!place->is_gpu()) {
      return blocks->AllocateUncoded(kHeaderWords, wire_type_, num_floats, floats);
    }
    TF_RETURN_IF_ERROR(blocks->AllocateFloats(kHeaderWords, wire_type_, num_floats, floats));
    // The kernel writes only rows with a gradient, but padding is sent too.
    for (const tf::Tensor* each : {&blocks->tensors().words, &blocks->tensors().own_words}) {
      TF_RETURN_IF_ERROR(
          ToTf(place->Clear(each->data(), static_cast<int64_t>(each->TotalBytes()))));
    }
    return absl::OkStatus();
  }

  float scale_ = 1;
  std::vector<int64_t> columns_;
};

const RegisterOnCpuAndGpu<ReturnGradientsOp> kReturnGradients(
    "KerasSparseReturnGradients",
    {"reply_rows", "positions", "position_splits", "scales", "weights", "splits"}, "W");

}  // namespace keras_sparse
