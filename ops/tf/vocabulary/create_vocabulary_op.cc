// KerasSparseCreateVocabulary: -> the handle of a new, empty vocabulary.
#include "absl/strings/str_cat.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/vocabulary/vocabulary_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

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
    tf::Tensor* handle = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &handle));
    handle->scalar<tf::ResourceHandle>()() = tf::ResourceHandle::MakeRefCountingHandle(
        new VocabularyResource("a vocabulary", std::make_shared<Vocabulary>(max_tokens_)),
        ctx->device()->name());
  }

 private:
  int64_t max_tokens_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseCreateVocabulary").Device(tf::DEVICE_CPU),
                        CreateVocabularyOp);

}  // namespace keras_sparse
