// KerasSparseImportVocabulary: what KerasSparseExportVocabulary gave -> in the place of what was.
#include "absl/strings/str_cat.h"
#include "ops/core/index/vocabulary.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

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
