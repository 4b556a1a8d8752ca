// KerasSparsePackSlices: gradients of the rows of several tables -> one buffer to gather.
#include <cstdint>
#include <vector>

#include "ops/core/exchange/packed_slices.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

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

}  // namespace keras_sparse
