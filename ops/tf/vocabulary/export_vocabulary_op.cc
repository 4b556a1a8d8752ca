// KerasSparseExportVocabulary: -> keys in the order of their tokens, and how often each was added.
#include <algorithm>
#include <vector>

#include "ops/tf/binding/binding.h"
#include "ops/tf/vocabulary/vocabulary_resource.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseExportVocabulary")
    .Input("handle: resource")
    .Output("keys: int64")
    .Output("counts: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    });

class ExportVocabularyOp : public tf::OpKernel {
 public:
  explicit ExportVocabularyOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    std::shared_ptr<Vocabulary> vocabulary;
    OP_REQUIRES_OK(ctx, FindOwned(ctx, tf::HandleFromInput(ctx, 0), &vocabulary));
    std::vector<int64_t> keys;
    std::vector<int64_t> counts;
    vocabulary->Export(&keys, &counts);
    OP_REQUIRES_OK(ctx, SetOutput(ctx, 0, keys));
    OP_REQUIRES_OK(ctx, SetOutput(ctx, 1, counts));
  }

 private:
  static absl::Status SetOutput(tf::OpKernelContext* ctx, int i,
                                const std::vector<int64_t>& values) {
    tf::Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, {static_cast<int64_t>(values.size())}, &output));
    std::copy(values.begin(), values.end(), output->flat<int64_t>().data());
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseExportVocabulary").Device(tf::DEVICE_CPU),
                        ExportVocabularyOp);

}  // namespace keras_sparse
