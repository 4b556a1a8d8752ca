// KerasSparseExportVocabulary: -> keys in the order of their tokens, and how often each was added.
#include <vector>

#include "ops/core/index/vocabulary.h"
#include "ops/tf/binding/kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace keras_sparse {

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

}  // namespace keras_sparse
