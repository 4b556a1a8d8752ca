// KerasSparseCheckReply: passes on what ranks replied to a request, but for the error of one.
#include <vector>

#include "ops/tf/exchange_inputs.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace keras_sparse {

// The rows of such a reply may be of no use, where a lookup had others; an error is one all the
// same.
REGISTER_OP("KerasSparseCheckReply")
    .KERAS_SPARSE_LAYOUT_ATTRS.Input("words: int32")
    .Input("splits: int32")
    .Input("own_words: int32")
    .Output("same_words: int32")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->input(0));
      return absl::OkStatus();
    });

class CheckReplyOp : public tf::OpKernel {
 public:
  explicit CheckReplyOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadLayout(ctx, &layout_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    std::vector<Block> blocks;
    OP_REQUIRES_OK(ctx, ReadBlocks(ctx, layout_, &blocks));
    OP_REQUIRES_OK(ctx, ToTf(CheckBlocks(layout_, blocks)));
    ctx->set_output(0, ctx->input(0));
  }

 private:
  ExchangeLayout layout_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCheckReply").Device(tf::DEVICE_CPU), CheckReplyOp);

}  // namespace keras_sparse
