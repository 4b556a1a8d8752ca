// KerasSparseServeRows: the requests of ranks -> the rows of this rank's tables.
#include <memory>
#include <vector>

#include "ops/tf/binding/kernel.h"
#include "ops/tf/exchange/exchange_op.h"
#include "ops/tf/exchange/served_row_tensors.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseServeRows")
    .Attr("P: int >= 0")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.KERAS_SPARSE_WORD_ATTR
    .Attr("pools: list(bool)")
    .Input("handles: P * resource")
    .Input("words: int32")
    .Input("splits: int32")
    .Input("own_words: int32")
    .Output("reply: W")
    .Output("reply_splits: int32")
    .Output("own_reply: W")
    .Output("served_rows: int64")
    .Output("ids: P * int64")
    .Output("row_splits: P * int64")
    .SetIsStateful()
    .SetShapeFn(ReplyShapes);

class ServeRowsOp : public ExchangeOp {
 public:
  explicit ServeRowsOp(tf::OpKernelConstruction* ctx) : ExchangeOp(ctx) {
    if (!ctx->status().ok()) return;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("pools", &pools_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList handles;
    LocalSlices parts{{}, pools_};
    std::vector<Block> blocks;
    std::unique_ptr<GatheredRows> served;
    ServedIds ids;
    OP_REQUIRES_OK(ctx, handles.ReadOfAnyDevice(ctx));
    OP_REQUIRES_OK(ctx, parts.Check(layout_, handles));
    OP_REQUIRES_OK(ctx, ReadBlocks(ctx, layout_, &blocks));
    OP_REQUIRES_OK(ctx, ToTf(GatheredRows::Create(layout_, blocks, &served)));
    OP_REQUIRES_OK(ctx, ids.Make(layout_, *served, pools_));
    std::unique_ptr<ExchangePlace> place;
    OP_REQUIRES_OK(ctx, ExchangePlace::Of(ctx, &place));
    BlockOutputs reply(layout_, place->memory());
    const Status status = MakeReply(layout_, wire_type_, *served, parts, ids, place.get(), &reply);
    if (!status.ok()) OP_REQUIRES_OK(ctx, SendError(status, place.get(), &reply));
    reply.tensors().SetOutputs(ctx, 0);
    ids.SetOutputs(ctx, 3);
  }

 private:
  std::vector<bool> pools_;
};

const RegisterOnCpuAndGpu<ServeRowsOp> kServeRows("KerasSparseServeRows",
                                                  {"handles", "words", "splits", "own_words",
                                                   "reply_splits", "served_rows", "ids",
                                                   "row_splits"},
                                                  "W");

}  // namespace keras_sparse
