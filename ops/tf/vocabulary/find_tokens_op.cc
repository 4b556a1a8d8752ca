// KerasSparseFindTokens: keys -> their tokens in a vocabulary. KerasSparseAddTokens: the same,
// where new keys get one.
#include "ops/core/index/vocabulary.h"
#include "ops/tf/binding/kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace keras_sparse {
namespace {

absl::Status TokensHaveShapeOfKeys(tf::shape_inference::InferenceContext* c) {
  c->set_output(0, c->input(1));
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("KerasSparseFindTokens")
    .Input("handle: resource")
    .Input("keys: int64")
    .Output("tokens: int64")
    .SetIsStateful()
    .SetShapeFn(TokensHaveShapeOfKeys);

REGISTER_OP("KerasSparseAddTokens")
    .Attr("counts: bool")
    .Input("handle: resource")
    .Input("keys: int64")
    .Output("tokens: int64")
    .SetIsStateful()
    .SetShapeFn(TokensHaveShapeOfKeys);

class FindTokensOp : public tf::OpKernel {
 public:
  explicit FindTokensOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    std::shared_ptr<Vocabulary> vocabulary;
    OP_REQUIRES_OK(ctx, FindOwned(ctx, tf::HandleFromInput(ctx, 0), &vocabulary));
    const tf::Tensor& keys = ctx->input(1);
    tf::Tensor* tokens = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, keys.shape(), &tokens));
    Find(vocabulary.get(), keys.flat<int64_t>().data(), keys.NumElements(),
         tokens->flat<int64_t>().data());
  }

 private:
  virtual void Find(Vocabulary* vocabulary, const int64_t* keys, int64_t n, int64_t* tokens) const {
    vocabulary->Find(keys, n, tokens);
  }
};

class AddTokensOp : public FindTokensOp {
 public:
  explicit AddTokensOp(tf::OpKernelConstruction* ctx) : FindTokensOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("counts", &counts_));
  }

 private:
  void Find(Vocabulary* vocabulary, const int64_t* keys, int64_t n,
            int64_t* tokens) const override {
    vocabulary->Add(keys, n, counts_, tokens);
  }

  bool counts_ = false;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseFindTokens").Device(tf::DEVICE_CPU), FindTokensOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseAddTokens").Device(tf::DEVICE_CPU), AddTokensOp);

}  // namespace keras_sparse
