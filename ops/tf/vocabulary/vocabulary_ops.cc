// Ops of vocabularies.
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/index/vocabulary.h"
#include "ops/tf/binding/kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace keras_sparse {

// KerasSparseCreateVocabulary: -> the handle of a new, empty vocabulary.
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

namespace {

absl::Status TokensHaveShapeOfKeys(tf::shape_inference::InferenceContext* c) {
  c->set_output(0, c->input(1));
  return absl::OkStatus();
}

}  // namespace

// KerasSparseFindTokens: keys -> their tokens in a vocabulary. KerasSparseAddTokens: the same, but
// new keys get a token.
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

// KerasSparseExportVocabulary: -> the keys in the order of their tokens, and how often each was
// added.
REGISTER_OP("KerasSparseExportVocabulary")
    .Input("handle: resource")
    .Output("keys: int64")
    .Output("counts: int64")
    .SetIsStateful()
    .SetShapeFn(VectorShapes);

static absl::Status ComputeExportVocabulary(tf::OpKernelContext* ctx) {
  std::shared_ptr<Vocabulary> vocabulary;
  TF_RETURN_IF_ERROR(FindOwned(ctx, tf::HandleFromInput(ctx, 0), &vocabulary));
  std::vector<int64_t> keys;
  std::vector<int64_t> counts;
  vocabulary->Export(&keys, &counts);
  TF_RETURN_IF_ERROR(CopyToOutput(keys, 0, ctx));
  return CopyToOutput(counts, 1, ctx);
}

REGISTER_KERNEL_BUILDER(Name("KerasSparseExportVocabulary").Device(tf::DEVICE_CPU),
                        CallOp<ComputeExportVocabulary>);

// KerasSparseImportVocabulary: replaces the content by the outputs of KerasSparseExportVocabulary.
REGISTER_OP("KerasSparseImportVocabulary")
    .Input("handle: resource")
    .Input("keys: int64")
    .Input("counts: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeImportVocabulary(tf::OpKernelContext* ctx) {
  std::shared_ptr<Vocabulary> vocabulary;
  TF_RETURN_IF_ERROR(FindOwned(ctx, tf::HandleFromInput(ctx, 0), &vocabulary));
  const tf::Tensor& keys = ctx->input(1);
  const tf::Tensor& counts = ctx->input(2);
  if (counts.NumElements() != keys.NumElements() + 1) {
    return InvalidInput(absl::StrCat(
        "`counts` must have one number for token 0 and one a key. Received: ", counts.NumElements(),
        " counts for ", keys.NumElements(), " keys"));
  }
  return ToTf(vocabulary->Import(keys.flat<int64_t>().data(), keys.NumElements(),
                                 counts.flat<int64_t>().data()));
}

REGISTER_KERNEL_BUILDER(Name("KerasSparseImportVocabulary").Device(tf::DEVICE_CPU),
                        CallOp<ComputeImportVocabulary>);

}  // namespace keras_sparse
