// KerasSparseReadSegment: records of a linked segment.
#include <algorithm>
#include <string>

#include "ops/core/env.h"
#include "ops/core/ssd_segment.h"
#include "ops/tf/binding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseReadSegment")
    .Input("path: string")
    .Input("record_words: int64")  // in units of four bytes, step words with them
    .Input("first: int64")
    .Input("is_alive: bool")
    .Output("keys: int64")
    .Output("records: float")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->Matrix(c->UnknownDim(), c->UnknownDim()));
      return absl::OkStatus();
    });

class ReadSegmentOp : public tf::OpKernel {
 public:
  explicit ReadSegmentOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    for (int i = 0; i < 3; ++i) {
      OP_REQUIRES(ctx, ctx->input(i).NumElements() == 1,
                  InvalidInput("`path`, `record_words` and `first` must be scalars"));
    }
    const std::string path = ctx->input(0).flat<tf::tstring>()(0);
    const int64_t record_words = ctx->input(1).flat<int64_t>()(0);
    const int64_t first = ctx->input(2).flat<int64_t>()(0);
    OP_REQUIRES(ctx, record_words > 0 && first >= 0,
                InvalidInput("`record_words` must be above 0, `first` not below"));
    std::vector<int64_t> keys;
    std::vector<char> records;
    OP_REQUIRES_OK(ctx, ToTf(ReadSegment(Env::Posix(), path, 4 * record_words, first,
                                         ctx->input(3).flat<bool>().data(),
                                         ctx->input(3).NumElements(), &keys, &records)));
    const auto n = static_cast<int64_t>(keys.size());
    tf::Tensor* key_output = nullptr;
    tf::Tensor* record_output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {n}, &key_output));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {n, record_words}, &record_output));
    std::copy(keys.begin(), keys.end(), key_output->flat<int64_t>().data());
    std::copy(records.begin(), records.end(),
              reinterpret_cast<char*>(record_output->flat<float>().data()));
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseReadSegment").Device(tf::DEVICE_CPU), ReadSegmentOp);

}  // namespace keras_sparse
