// KerasSparseServeSamples: this rank's rows of a whole batch -> the rows for each rank, in the form
// of KerasSparseServeRows.
#include <algorithm>
#include <vector>

#include "ops/core/exchange/reply_format.h"
#include "ops/core/exchange/whole_batches.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/exchange/exchange_op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseServeSamples")
    .Attr("N: int >= 0")
    .KERAS_SPARSE_LAYOUT_ATTRS
    .KERAS_SPARSE_WIRE_ATTR
    // Whether rows have the values that tables store: see ReadHasStoredRows.
    .Attr("has_stored_rows: bool = true")
    // The ids of the layout's own parts, unchanged: the error for an id outside its table is sent
    // to all ranks in place of rows.
    .Input("ids: N * int64")
    .Input("rows: N * float")
    .Output("reply: int32")
    .Output("reply_splits: int32")
    .Output("own_reply: int32")
    .Output("served_rows: int64")
    .SetShapeFn(ReplyShapes);

class ServeSamplesOp : public ExchangeOp {
 public:
  explicit ServeSamplesOp(tf::OpKernelConstruction* ctx) : ExchangeOp(ctx) {
    if (!ctx->status().ok()) return;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("has_stored_rows", &has_stored_rows_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    tf::Tensor* served_rows = nullptr;
    const auto num_parts = static_cast<int64_t>(layout_.own_parts().size());
    const auto num_ranks = static_cast<int64_t>(layout_.num_ranks);
    OP_REQUIRES_OK(ctx, ctx->allocate_output(3, {num_parts, num_ranks}, &served_rows));
    BlockOutputs reply(layout_);
    int64_t num_served = 0;  // samples per rank
    const Status status = FromTf(MakeReply(ctx, &reply, &num_served));
    if (!status.ok()) OP_REQUIRES_OK(ctx, reply.SetStatus(status));
    std::fill_n(served_rows->flat<int64_t>().data(), served_rows->NumElements(), num_served);
    reply.tensors().SetOutputs(ctx, 0);
  }

 private:
  absl::Status MakeReply(tf::OpKernelContext* ctx, BlockOutputs* reply, int64_t* num_served) const {
    tf::OpInputList ids;
    tf::OpInputList rows;
    TF_RETURN_IF_ERROR(ctx->input_list("ids", &ids));
    TF_RETURN_IF_ERROR(ctx->input_list("rows", &rows));
    const std::vector<ExchangeLayout::Part>& parts = layout_.own_parts();
    if (static_cast<size_t>(rows.size()) != parts.size()) {
      return InvalidInput("`rows` must be those of the layout's own parts");
    }
    std::vector<int64_t> sizes;
    for (const tf::Tensor& each : rows) sizes.push_back(each.dims() > 0 ? each.dim_size(0) : 0);
    TF_RETURN_IF_ERROR(ToTf(CheckOwnBatch(layout_, sizes, wire_type_)));
    const int64_t num_samples = sizes.empty() ? 0 : sizes[0];
    *num_served = num_samples / static_cast<int64_t>(layout_.num_ranks);
    int64_t num_words = 0;
    std::vector<FloatType> types;
    for (int p = 0; p < rows.size(); ++p) {
      const ExchangeLayout::Part& part = parts[static_cast<size_t>(p)];
      const ExchangedTable& table = layout_.tables[part.table];
      TF_RETURN_IF_ERROR(ToTf(table.CheckIds(ids[p].flat<int64_t>().data(), ids[p].NumElements())));
      const int64_t width = layout_.slice(part).num_columns;
      if (rows[p].NumElements() != num_samples * width) {
        return InvalidInput("`rows` must be as wide as the layout's own parts");
      }
      const ReplyFormat format(table, width, wire_type_);
      types.push_back(has_stored_rows_ ? format.row_type() : format.sum_type());
      num_words += FloatWords(types.back(), width * *num_served);
    }
    std::vector<Word*> next;
    TF_RETURN_IF_ERROR(reply->AllocateWords(
        kHeaderWords, std::vector<int64_t>(layout_.num_ranks, num_words), &next));
    for (Word* block : reply->Blocks()) {
      WriteStatus(Status::Ok(), layout_.checksum, block);
      WriteBatchSize(num_samples, block);
      WriteHasStoredRows(has_stored_rows_, block);
    }
    for (int p = 0; p < rows.size(); ++p) {
      const float* from = rows[p].flat<float>().data();
      const FloatType type = types[static_cast<size_t>(p)];
      const int64_t n = *num_served * layout_.slice(parts[static_cast<size_t>(p)]).num_columns;
      for (Word*& each : next) {
        EncodeFloats(type, from, n, each);
        from += n;
        each += FloatWords(type, n);
      }
    }
    return absl::OkStatus();
  }

  bool has_stored_rows_ = true;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseServeSamples").Device(tf::DEVICE_CPU), ServeSamplesOp);

}  // namespace keras_sparse
