// KerasSparseRequestRows: ids of many inputs -> what to ask each rank for.
#include <algorithm>
#include <memory>
#include <vector>

#include "ops/core/exchange/row_request.h"
#include "ops/tf/exchange_op.h"
#include "ops/tf/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseRequestRows")
    .Attr("N: int >= 1")
    .KERAS_SPARSE_LAYOUT_ATTRS.KERAS_SPARSE_WIRE_ATTR.Attr("input_tables: list(int)")
    .Attr("combiners: list(string)")
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
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      const int n = (c->num_outputs() - 4) / 3;
      c->set_output(3, c->Matrix(c->UnknownDim(), c->UnknownDim()));
      for (int i = 0; i < c->num_outputs(); ++i) {
        if (i != 3) c->set_output(i, c->Vector(c->UnknownDim()));
      }
      std::vector<std::string> combiners;
      TF_RETURN_IF_ERROR(c->GetAttr("combiners", &combiners));
      for (int i = 0; i < n; ++i) {
        // The outputs of a lookup get their static shape from these.
        c->set_output(4 + n + i, c->input(n + i));
        if (combiners[static_cast<size_t>(i)] == "none") c->set_output(4 + i, c->input(i));
      }
      return absl::OkStatus();
    });

class RequestRowsOp : public InputsExchangeOp {
 public:
  explicit RequestRowsOp(tf::OpKernelConstruction* ctx) : InputsExchangeOp(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    std::vector<RequestInput> requests;
    TfExecutor executor(ctx);
    std::unique_ptr<RowRequest> request;
    BlockOutputs blocks(layout_);
    Status status = Request(ctx, &requests, &executor, &request);
    if (status.ok()) status = FromTf(blocks.Allocate(ctx, NumWords(*request)));
    // The other ranks are on their way to the exchange: it carries the error to all of them, and
    // back to this one.
    OP_REQUIRES_OK(ctx, status.ok() ? Write(ctx, requests, *request, &blocks, &executor)
                                    : WriteError(ctx, status));
  }

 private:
  Status Request(tf::OpKernelContext* ctx, std::vector<RequestInput>* requests, Executor* executor,
                 std::unique_ptr<RowRequest>* request) const {
    BagInputs inputs;
    KERAS_SPARSE_RETURN_IF_ERROR(FromTf(inputs.Read(ctx, combiners_)));
    for (size_t i = 0; i < combiners_.size(); ++i) {
      requests->push_back({input_tables_[i], inputs.ids(static_cast<int>(i)), inputs.bags(i)});
    }
    return RowRequest::Create(layout_, *requests, wire_type_, executor, request);
  }

  std::vector<int64_t> NumWords(const RowRequest& request) const {
    std::vector<int64_t> num_words;
    for (size_t r = 0; r < layout_.num_ranks; ++r) num_words.push_back(request.num_words(r));
    return num_words;
  }

  absl::Status Write(tf::OpKernelContext* ctx, const std::vector<RequestInput>& requests,
                     const RowRequest& request, BlockOutputs* blocks, Executor* executor) const {
    RowRequest::Result result;
    blocks->Set(ctx, 0);
    result.blocks = blocks->Blocks();
    TF_RETURN_IF_ERROR(AllocateReplyRows(ctx, &result.reply_rows));
    for (size_t i = 0; i < requests.size(); ++i) {
      result.inputs.emplace_back();
      TF_RETURN_IF_ERROR(AllocateInput(ctx, static_cast<int>(i), requests[i].bags,
                                       request.num_positions(i), &result.inputs.back()));
    }
    request.Write(result, executor);
    return absl::OkStatus();
  }

  absl::Status WriteError(tf::OpKernelContext* ctx, const Status& status) const {
    BlockOutputs blocks(layout_);
    int64_t* reply_rows = nullptr;
    TF_RETURN_IF_ERROR(blocks.SetStatus(ctx, status));
    blocks.Set(ctx, 0);
    TF_RETURN_IF_ERROR(AllocateReplyRows(ctx, &reply_rows));
    for (size_t i = 0; i < combiners_.size(); ++i) {
      RowRequest::InputResult result;
      Bags none;
      none.combiner = combiners_[i];
      TF_RETURN_IF_ERROR(AllocateInput(ctx, static_cast<int>(i), none, 0, &result));
    }
    return absl::OkStatus();
  }

  absl::Status AllocateReplyRows(tf::OpKernelContext* ctx, int64_t** rows) const {
    tf::Tensor* tensor = nullptr;
    const tf::TensorShape shape(
        {static_cast<int64_t>(layout_.tables.size()), static_cast<int64_t>(layout_.num_ranks)});
    TF_RETURN_IF_ERROR(ctx->allocate_output(3, shape, &tensor));
    *rows = tensor->flat<int64_t>().data();
    std::fill_n(*rows, shape.num_elements(), 0);
    return absl::OkStatus();
  }

  absl::Status AllocateInput(tf::OpKernelContext* ctx, int i, const Bags& bags,
                             int64_t num_positions, RowRequest::InputResult* result) const {
    const auto n = static_cast<int>(combiners_.size());
    const bool is_pooled = bags.combiner != Combiner::kNone;
    const int64_t num_splits = is_pooled ? bags.num_bags + 1 : 0;
    const int64_t num_scales = is_pooled && bags.weights == nullptr ? bags.num_bags : 0;
    tf::Tensor* positions = nullptr;
    tf::Tensor* splits = nullptr;
    tf::Tensor* scales = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(4 + i, {num_positions}, &positions));
    TF_RETURN_IF_ERROR(ctx->allocate_output(4 + n + i, {num_splits}, &splits));
    TF_RETURN_IF_ERROR(ctx->allocate_output(4 + 2 * n + i, {num_scales}, &scales));
    result->positions = reinterpret_cast<uint32_t*>(positions->flat<int32_t>().data());
    result->splits = is_pooled ? splits->flat<int64_t>().data() : nullptr;
    result->scales = num_scales > 0 ? scales->flat<float>().data() : nullptr;
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseRequestRows").Device(tf::DEVICE_CPU), RequestRowsOp);

}  // namespace keras_sparse
