// KerasSparseServeRows: what ranks ask for -> the rows of this rank's tables.
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/exchange/served_rows.h"
#include "ops/tf/exchange_inputs.h"
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
    .Output("reply: int32")
    .Output("reply_splits: int32")
    .Output("served_rows: int64")
    .Output("ids: P * int64")
    .Output("row_splits: P * int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Vector(c->UnknownDim()));
      c->set_output(2, c->Matrix(c->UnknownDim(), c->UnknownDim()));
      return absl::OkStatus();
    });

class ServeRowsOp : public tf::OpKernel {
 public:
  explicit ServeRowsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadLayout(ctx, &layout_));
    OP_REQUIRES_OK(ctx, ReadWireType(ctx, &wire_type_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("pools", &pools_));
    OP_REQUIRES(
        ctx, pools_.size() == layout_.own_parts().size(),
        InvalidInput(absl::StrCat("`pools` must have one entry a part, ",
                                  layout_.own_parts().size(), ". Received: ", pools_.size())));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList handles;
    BlockInputs blocks;
    std::vector<EmbeddingTable*> tables;
    std::unique_ptr<ServedRows> served;
    std::vector<const int64_t*> ids;
    OP_REQUIRES_OK(ctx, handles.Read(ctx));
    OP_REQUIRES_OK(ctx, CheckTables(handles, &tables));
    OP_REQUIRES_OK(ctx, blocks.Read(ctx, layout_.num_ranks));
    OP_REQUIRES_OK(ctx, ToTf(ServedRows::Create(layout_, blocks.words, blocks.num_words,
                                                blocks.splits, &served)));
    OP_REQUIRES_OK(ctx, WriteIds(ctx, *served, &ids));
    OP_REQUIRES_OK(ctx, Reply(ctx, *served, tables, ids));
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
    TF_RETURN_IF_ERROR(ctx->allocate_output(2, {num_parts, num_ranks}, &served_rows));
    for (int p = 0; p < num_parts; ++p) {
      const auto part = static_cast<size_t>(p);
      if (served.has_bags(part) && !pools_[part]) {
        return ToTf(FailedPrecondition(
            "every rank must make the layer with the same combiners. Received: bags of a table "
            "without a combiner on this rank"));
      }
      tf::Tensor* part_ids = nullptr;
      tf::Tensor* splits = nullptr;
      const int64_t num_splits = pools_[part] ? served.num_rows(part) + 1 : 0;
      TF_RETURN_IF_ERROR(ctx->allocate_output(3 + p, {served.num_ids(part)}, &part_ids));
      TF_RETURN_IF_ERROR(ctx->allocate_output(3 + num_parts + p, {num_splits}, &splits));
      served.WriteIds(part, part_ids->flat<int64_t>().data(),
                      pools_[part] ? splits->flat<int64_t>().data() : nullptr);
      ids->push_back(part_ids->flat<int64_t>().data());
      for (size_t r = 0; r < layout_.num_ranks; ++r) {
        served_rows->matrix<int64_t>()(p, static_cast<int64_t>(r)) = served.num_rows(part, r);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Reply(tf::OpKernelContext* ctx, const ServedRows& served,
                     const std::vector<EmbeddingTable*>& tables,
                     const std::vector<const int64_t*>& ids) const {
    std::vector<int64_t> num_floats;
    for (size_t r = 0; r < layout_.num_ranks; ++r) num_floats.push_back(served.num_floats(r));
    BlockOutputs blocks;
    std::vector<float*> floats;
    TF_RETURN_IF_ERROR(blocks.AllocateFloats(ctx, kHeaderWords, wire_type_, num_floats, &floats));
    for (Word* block : blocks.Blocks()) WriteStatus(Status::Ok(), layout_.checksum, block);
    TfExecutor executor(ctx);
    const Status status = served.Reply(tables, ids, floats, &executor);
    blocks.EncodeFloats(kHeaderWords, wire_type_, num_floats, floats);
    // As with ids: the replies carry the error to all ranks.
    if (!status.ok()) TF_RETURN_IF_ERROR(blocks.SetStatus(ctx, layout_, status));
    blocks.Set(ctx, 0);
    return absl::OkStatus();
  }

  ExchangeLayout layout_;
  WireType wire_type_ = WireType::kFloat32;
  std::vector<bool> pools_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseServeRows").Device(tf::DEVICE_CPU), ServeRowsOp);

}  // namespace keras_sparse
