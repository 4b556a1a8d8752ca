// KerasSparseCheckWholeBatches: what ranks say of their batches -> how many samples each rank has.
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/exchange/batch_headers.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

// It has no state, unlike an assertion: TensorFlow would let that wait for those before it in a
// function, and ranks may have layers in different orders there.
REGISTER_OP("KerasSparseCheckWholeBatches")
    .Attr("rank: int >= 0")
    .Attr("table_names: list(string)")
    .Attr("input_dims: list(int)")
    .Input("headers: int64")
    .Output("num_own_samples: int64")
    .SetShapeFn(tf::shape_inference::ScalarShape);

class CheckWholeBatchesOp : public tf::OpKernel {
 public:
  explicit CheckWholeBatchesOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<std::string> names;
    std::vector<int64_t> input_dims;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rank", &rank_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_names", &names));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("input_dims", &input_dims));
    OP_REQUIRES(ctx, names.size() == input_dims.size(),
                InvalidInput(absl::StrCat("`input_dims` must have one number a table, ",
                                          names.size(), ". Received: ", input_dims.size())));
    for (size_t i = 0; i < names.size(); ++i) tables_.push_back({names[i], input_dims[i]});
  }

  void Compute(tf::OpKernelContext* ctx) override {
    const tf::Tensor& words = ctx->input(0);
    OP_REQUIRES(
        ctx,
        words.dims() == 2 && words.dim_size(0) > rank_ && words.dim_size(1) == kBatchHeaderWords,
        InvalidInput(absl::StrCat("`headers` must be of shape (num_ranks, ", kBatchHeaderWords,
                                  "). Received: headers.shape=", words.shape().DebugString())));
    std::vector<BatchHeader> headers(static_cast<size_t>(words.dim_size(0)));
    std::memcpy(headers.data(), words.flat<int64_t>().data(), headers.size() * sizeof(BatchHeader));
    tf::Tensor* num_own_samples = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &num_own_samples));
    OP_REQUIRES_OK(ctx, ToTf(CheckWholeBatches(headers, static_cast<size_t>(rank_), tables_,
                                               &num_own_samples->scalar<int64_t>()())));
  }

 private:
  int64_t rank_ = 0;
  std::vector<BatchTable> tables_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCheckWholeBatches").Device(tf::DEVICE_CPU),
                        CheckWholeBatchesOp);

}  // namespace keras_sparse
