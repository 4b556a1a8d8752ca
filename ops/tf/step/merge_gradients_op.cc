// KerasSparseMergeGradients: output gradients of lookups -> one gradient sum a distinct id.
#include <memory>
#include <vector>

#include "ops/core/gradients/gradient_merger.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/binding/output_allocator.h"
#include "ops/tf/binding/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseMergeGradients")
    .Attr("N: int >= 1")
    .Attr("grad_types: list({float, half, bfloat16}) >= 1")
    .Attr("combiners: list(string)")
    // The columns of each table's gradient in its `output_grads`, where that has more.
    .Attr("columns: list(int) = []")
    .Attr("widths: list(int) = []")
    .Input("ids: N * int64")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Input("output_grads: grad_types")
    .Output("unique_ids: N * int64")
    .Output("values: N * float")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      std::vector<tf::shape_inference::ShapeHandle> grads;
      std::vector<int64_t> widths;
      TF_RETURN_IF_ERROR(c->input("output_grads", &grads));
      TF_RETURN_IF_ERROR(c->GetAttr("widths", &widths));
      if (!widths.empty() && widths.size() != grads.size()) {
        return InvalidInput("`widths` must have one number a table, or none");
      }
      for (size_t i = 0; i < grads.size(); ++i) {
        tf::shape_inference::ShapeHandle matrix;
        TF_RETURN_IF_ERROR(c->WithRank(grads[i], 2, &matrix));
        c->set_output(static_cast<int>(i), c->Vector(c->UnknownDim()));
        const auto width = widths.empty() ? c->Dim(matrix, 1) : c->MakeDim(widths[i]);
        c->set_output(static_cast<int>(grads.size() + i), c->Matrix(c->UnknownDim(), width));
      }
      return absl::OkStatus();
    });

class MergeGradientsOp : public tf::OpKernel {
 public:
  explicit MergeGradientsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("columns", &columns_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("widths", &widths_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    BagInputs inputs;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, combiners_));
    std::vector<OutputGradient> gradients;
    OP_REQUIRES_OK(ctx, ReadOutputGradients(ctx, inputs, columns_, widths_, &gradients));
    const auto num_tables = static_cast<int>(gradients.size());
    TfExecutor executor(ctx);
    std::unique_ptr<GradientMerger> merger;
    OP_REQUIRES_OK(ctx, ToTf(GradientMerger::Create(gradients, &executor, &merger)));

    tf::OpOutputList unique_ids;
    OP_REQUIRES_OK(ctx, ctx->output_list("unique_ids", &unique_ids));
    std::vector<GradientMerger::Result> results;
    for (int i = 0; i < num_tables; ++i) {
      const auto t = static_cast<size_t>(i);
      const int64_t n = merger->num_unique(t);
      tf::Tensor* ids_out = nullptr;
      float* values = nullptr;
      OP_REQUIRES_OK(ctx, unique_ids.allocate(i, {n}, &ids_out));
      OP_REQUIRES_OK(ctx, AllocateFloats(ctx, num_tables + i, {n, gradients[t].dim}, &values));
      results.push_back({ids_out->flat<int64_t>().data(), values});
    }
    merger->Write(results, &executor);
  }

 private:
  std::vector<Combiner> combiners_;
  std::vector<int64_t> columns_;
  std::vector<int64_t> widths_;
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseMergeGradients").Device(tf::DEVICE_CPU), MergeGradientsOp);

}  // namespace keras_sparse
