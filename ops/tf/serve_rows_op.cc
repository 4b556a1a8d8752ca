// KerasSparseServeRows: what ranks ask for -> the rows of this rank's tables.
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/exchange/served_rows.h"
#include "ops/tf/exchange_op.h"
#include "ops/tf/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseServeRows")
    .Attr("P: int >= 0")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.Attr("pools: list(bool)")
    .Input("handles: P * resource")
    .Input("words: int32")
    .Input("splits: int32")
    .Input("own_words: int32")
    .Output("reply: int32")
    .Output("reply_splits: int32")
    .Output("own_reply: int32")
    .Output("served_rows: int64")
    .Output("ids: P * int64")
    .Output("row_splits: P * int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Vector(c->UnknownDim()));
      c->set_output(3, c->Matrix(c->UnknownDim(), c->UnknownDim()));
      return absl::OkStatus();
    });

class ServeRowsOp : public ExchangeOp {
 public:
  explicit ServeRowsOp(tf::OpKernelConstruction* ctx) : ExchangeOp(ctx) {
    if (!ctx->status().ok()) return;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("pools", &pools_));
    OP_REQUIRES(
        ctx, pools_.size() == layout_.own_parts().size(),
        InvalidInput(absl::StrCat("`pools` must have one entry a part, ",
                                  layout_.own_parts().size(), ". Received: ", pools_.size())));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList handles;
    std::vector<Block> blocks;
    std::vector<EmbeddingTable*> tables;
    std::unique_ptr<ServedRows> served;
    std::vector<const int64_t*> ids;
    OP_REQUIRES_OK(ctx, handles.Read(ctx));
    OP_REQUIRES_OK(ctx, CheckTables(handles, &tables));
    OP_REQUIRES_OK(ctx, ReadBlocks(ctx, layout_, &blocks));
    OP_REQUIRES_OK(ctx, ToTf(ServedRows::Create(layout_, blocks, &served)));
    OP_REQUIRES_OK(ctx, WriteIds(ctx, *served, &ids));
    BlockOutputs reply(layout_);
    const Status status = Reply(ctx, *served, tables, ids, &reply);
    // As with ids: the replies carry the error to all ranks.
    if (!status.ok()) OP_REQUIRES_OK(ctx, reply.SetStatus(ctx, status));
    reply.Set(ctx, 0);
  }

 private:
  absl::Status CheckTables(const TableList& handles, std::vector<EmbeddingTable*>* tables) const {
    for (size_t p = 0; p < pools_.size(); ++p) {
      tables->push_back(handles[p]);
      const int64_t num_columns = layout_.slice(layout_.own_parts()[p]).num_columns;
      if (handles[p]->dim() == num_columns) continue;
      return InvalidInput(absl::StrCat(
          "`handles` must be the tables of the layout's own parts. Received: table '",
          handles[p]->name(), "' of width ", handles[p]->dim(), " for a part of ", num_columns));
    }
    return absl::OkStatus();
  }

  absl::Status WriteIds(tf::OpKernelContext* ctx, const ServedRows& served,
                        std::vector<const int64_t*>* ids) const {
    const auto num_parts = static_cast<int>(pools_.size());
    const auto num_ranks = static_cast<int64_t>(layout_.num_ranks);
    tf::Tensor* served_rows = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(3, {num_parts, num_ranks}, &served_rows));
    for (int p = 0; p < num_parts; ++p) {
      const auto part = static_cast<size_t>(p);
      tf::Tensor* part_ids = nullptr;
      tf::Tensor* splits = nullptr;
      const int64_t num_splits = pools_[part] ? served.num_rows(part) + 1 : 0;
      TF_RETURN_IF_ERROR(ctx->allocate_output(4 + p, {served.num_ids(part)}, &part_ids));
      TF_RETURN_IF_ERROR(ctx->allocate_output(4 + num_parts + p, {num_splits}, &splits));
      served.WriteIds(part, part_ids->flat<int64_t>().data(),
                      pools_[part] ? splits->flat<int64_t>().data() : nullptr);
      ids->push_back(part_ids->flat<int64_t>().data());
      for (size_t r = 0; r < layout_.num_ranks; ++r) {
        served_rows->matrix<int64_t>()(p, static_cast<int64_t>(r)) = served.num_rows(part, r);
      }
    }
    return absl::OkStatus();
  }

  Status Reply(tf::OpKernelContext* ctx, const ServedRows& served,
               const std::vector<EmbeddingTable*>& tables, const std::vector<const int64_t*>& ids,
               BlockOutputs* blocks) const {
    for (size_t p = 0; p < pools_.size(); ++p) {
      if (!served.has_bags(p) || pools_[p]) continue;
      return FailedPrecondition(
          "every rank must make the layer with the same combiners. Received: bags of a table "
          "without a combiner on this rank");
    }
    std::vector<int64_t> num_floats;
    for (size_t r = 0; r < layout_.num_ranks; ++r) num_floats.push_back(served.num_floats(r));
    std::vector<float*> floats;
    KERAS_SPARSE_RETURN_IF_ERROR(
        FromTf(blocks->AllocateFloats(ctx, kHeaderWords, wire_type_, num_floats, &floats)));
    for (Word* block : blocks->Blocks()) WriteStatus(Status::Ok(), layout_.checksum, block);
    TfExecutor executor(ctx);
    KERAS_SPARSE_RETURN_IF_ERROR(served.Reply(tables, ids, floats, &executor));
    blocks->EncodeFloats(kHeaderWords, wire_type_, num_floats, floats);
    return Status::Ok();
  }

  std::vector<bool> pools_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseServeRows").Device(tf::DEVICE_CPU), ServeRowsOp);

}  // namespace keras_sparse
