// KerasSparseRequestRows: the ids of many inputs -> the requests for each rank.
#include <vector>

#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"
#include "ops/tf/exchange/exchange_op.h"
#include "ops/tf/exchange/row_request_tensors.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseRequestRows")
    .Attr("N: int >= 1")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.Attr("input_tables: list(int)")
    .Attr("combiners: list(string)")
    .Attr("are_joined: bool = false")
    .Input("ids: N * int64")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Output("words: int32")
    .Output("splits: int32")
    .Output("own_words: int32")
    .Output("reply_rows: int64")
    .Output("positions: N * int32")
    .Output("position_splits: N * int64")
    .Output("scales: N * float")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) { return SetShapesOfRequest(c, 0); });

class RequestRowsOp : public InputsExchangeOp {
 public:
  explicit RequestRowsOp(tf::OpKernelConstruction* ctx) : InputsExchangeOp(ctx) {
    if (!ctx->status().ok()) return;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("are_joined", &are_joined_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    std::vector<RequestInput> inputs;
    RowRequestTensors request;
    TfExecutor executor(ctx);
    Status status = FromTf(ReadRequestInputs(ctx, input_tables_, combiners_, are_joined_, &inputs));
    if (status.ok()) status = request.Make(layout_, inputs, wire_type_, &executor);
    if (!status.ok()) OP_REQUIRES_OK(ctx, request.MakeError(layout_, combiners_, status));
    request.SetOutputs(ctx);
  }

 private:
  bool are_joined_ = false;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseRequestRows").Device(tf::DEVICE_CPU), RequestRowsOp);

}  // namespace keras_sparse
