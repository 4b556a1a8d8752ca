// Ops of gradients that ranks send each other without changes.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/core/exchange/packed_slices.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

// KerasSparsePackSlices: the gradients of the rows of several tables -> one buffer to gather.
REGISTER_OP("KerasSparsePackSlices")
    .Attr("N: int >= 1")
    .Attr("scale: float")
    .Input("ids: N * int64")
    .Input("values: N * float")
    .Output("words: int32")
    .SetShapeFn(VectorShapes);

class PackSlicesOp : public tf::OpKernel {
 public:
  explicit PackSlicesOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("scale", &scale_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    tf::OpInputList ids;
    tf::OpInputList values;
    OP_REQUIRES_OK(ctx, ctx->input_list("ids", &ids));
    OP_REQUIRES_OK(ctx, ctx->input_list("values", &values));
    std::vector<RowSlices> tables;
    for (int i = 0; i < ids.size(); ++i) {
      OP_REQUIRES(ctx,
                  ids[i].dims() == 1 && values[i].dims() == 2 &&
                      values[i].dim_size(0) == ids[i].dim_size(0),
                  absl::InvalidArgumentError(absl::StrCat(
                      "`values` must be (num_ids, width) for `ids` of (num_ids). Received: ids[", i,
                      "].shape=", ids[i].shape().DebugString(), ", values[", i,
                      "].shape=", values[i].shape().DebugString())));
      tables.push_back({ids[i].flat<int64_t>().data(), values[i].flat<float>().data(),
                        ids[i].dim_size(0), values[i].dim_size(1)});
    }
    int64_t num_words = 0;
    OP_REQUIRES_OK(ctx, ToTf(CountPackedWords(tables, &num_words)));
    tf::Tensor* words = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {num_words}, &words));
    PackSlices(tables, scale_, words->flat<int32_t>().data());
  }

 private:
  float scale_ = 1;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparsePackSlices").Device(tf::DEVICE_CPU), PackSlicesOp);

// KerasSparseUnpackSlices: the gathered buffers of KerasSparsePackSlices -> the gradients of rows.
REGISTER_OP("KerasSparseUnpackSlices")
    .Attr("N: int >= 1")
    .Attr("widths: list(int)")
    .Attr("num_ranks: int >= 1")
    .Input("words: int32")
    .Output("ids: N * int64")
    .Output("values: N * float")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      std::vector<int64_t> widths;
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("widths", &widths));
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      for (int i = 0; i < n; ++i) {
        const bool is_given = i < static_cast<int>(widths.size()) && widths[i] >= 0;
        c->set_output(i, c->Vector(c->UnknownDim()));
        c->set_output(
            n + i, c->Matrix(c->UnknownDim(), is_given ? c->MakeDim(widths[i]) : c->UnknownDim()));
      }
      return absl::OkStatus();
    });

class UnpackSlicesOp : public tf::OpKernel {
 public:
  explicit UnpackSlicesOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    int num_tables = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_tables));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("widths", &widths_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_ranks", &num_ranks_));
    OP_REQUIRES(ctx,
                static_cast<int>(widths_.size()) == num_tables &&
                    std::all_of(widths_.begin(), widths_.end(), [](int64_t w) { return w > 0; }),
                absl::InvalidArgumentError("`widths` must be above 0, one a table"));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    const tf::Tensor& words = ctx->input(0);
    OP_REQUIRES(ctx, words.dims() == 1,
                absl::InvalidArgumentError("`words` must be (num_words). Received: words.shape=" +
                                           words.shape().DebugString()));
    PackedSlices slices;
    OP_REQUIRES_OK(ctx, ToTf(PackedSlices::Open(words.flat<int32_t>().data(), words.NumElements(),
                                                widths_, num_ranks_, &slices)));
    tf::OpOutputList ids;
    tf::OpOutputList values;
    OP_REQUIRES_OK(ctx, ctx->output_list("ids", &ids));
    OP_REQUIRES_OK(ctx, ctx->output_list("values", &values));
    for (int i = 0; i < ids.size(); ++i) {
      const auto table = static_cast<size_t>(i);
      tf::Tensor* of_ids = nullptr;
      tf::Tensor* of_values = nullptr;
      OP_REQUIRES_OK(ctx, ids.allocate(i, {slices.num_ids(table)}, &of_ids));
      OP_REQUIRES_OK(ctx, values.allocate(i, {slices.num_ids(table), widths_[table]}, &of_values));
      slices.Copy(table, of_ids->flat<int64_t>().data(), of_values->flat<float>().data());
    }
  }

 private:
  std::vector<int64_t> widths_;
  int64_t num_ranks_ = 1;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseUnpackSlices").Device(tf::DEVICE_CPU), UnpackSlicesOp);

}  // namespace keras_sparse
