// KerasSparseCreateVocabulary: -> the handle of a new, empty vocabulary.
#include "absl/strings/str_cat.h"
#include "ops/core/index/vocabulary.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseCreateVocabulary")
    .Attr("max_tokens: int")
    .Output("handle: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape);

class CreateVocabularyOp : public tf::OpKernel {
 public:
  explicit CreateVocabularyOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("max_tokens", &max_tokens_));
    OP_REQUIRES(ctx, max_tokens_ >= 1 && max_tokens_ <= Vocabulary::kMaxTokens,
                InvalidInput(absl::StrCat("`max_tokens` must be in [1, ", Vocabulary::kMaxTokens,
                                          "]. Received: max_tokens=", max_tokens_)));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    SetHandle(
        ctx, 0,
        new OwnedResource<Vocabulary>("a vocabulary", std::make_shared<Vocabulary>(max_tokens_)));
  }

 private:
  int64_t max_tokens_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCreateVocabulary").Device(tf::DEVICE_CPU),
                        CreateVocabularyOp);

}  // namespace keras_sparse
