// KerasSparseImportVocabulary: what KerasSparseExportVocabulary gave -> in the place of what was.
#include "absl/strings/str_cat.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/vocabulary/vocabulary_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseImportVocabulary")
    .Input("handle: resource")
    .Input("keys: int64")
    .Input("counts: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class ImportVocabularyOp : public tf::OpKernel {
 public:
  explicit ImportVocabularyOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    std::shared_ptr<Vocabulary> vocabulary;
    OP_REQUIRES_OK(ctx, FindOwned(ctx, tf::HandleFromInput(ctx, 0), &vocabulary));
    const tf::Tensor& keys = ctx->input(1);
    const tf::Tensor& counts = ctx->input(2);
    OP_REQUIRES(ctx, counts.NumElements() == keys.NumElements() + 1,
                InvalidInput(absl::StrCat(
                    "`counts` must have one number for token 0 and one a key. Received: ",
                    counts.NumElements(), " counts for ", keys.NumElements(), " keys")));
    OP_REQUIRES_OK(ctx, ToTf(vocabulary->Import(keys.flat<int64_t>().data(), keys.NumElements(),
                                                counts.flat<int64_t>().data())));
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseImportVocabulary").Device(tf::DEVICE_CPU),
                        ImportVocabularyOp);

}  // namespace keras_sparse
