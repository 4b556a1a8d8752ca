// KerasSparseMergeGradients: output gradients of lookups -> one gradient sum per distinct id, and
// further entries for tables that count occurrences.
#include "ops/tf/step/merge_gradients_op.h"

#include <memory>
#include <vector>

#include "ops/core/gradients/gradient_merger.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/output_allocator.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseMergeGradients")
    .Attr("N: int >= 1")
    .Attr("grad_types: list({float, half, bfloat16}) >= 1")
    .Attr("combiners: list(string)")
    // The columns of each table's gradient in its `output_grads`, if that has more columns.
    .Attr("columns: list(int) = []")
    .Attr("widths: list(int) = []")
    // Maximum number of entries of an id in each result; the first entry has the sum. Defaults to
    // 1.
    .Attr("max_entries: list(int) = []")
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

namespace {

class MergeGradientsOnCpuOp : public MergeGradientsOp {
 public:
  using MergeGradientsOp::MergeGradientsOp;

 protected:
  absl::Status Merge(const std::vector<OutputGradient>& gradients,
                     tf::OpKernelContext* ctx) override {
    TfExecutor executor(ctx);
    std::unique_ptr<GradientMerger> merger;
    TF_RETURN_IF_ERROR(ToTf(GradientMerger::Create(gradients, &executor, &merger)));
    std::vector<GradientMerger::Result> results;
    TF_RETURN_IF_ERROR(MakeResults(
        gradients, [&](size_t g) { return merger->num_entries(g); },
        [ctx](int output, const tf::TensorShape& shape, float** data) {
          return AllocateFloats(ctx, output, shape, data);
        },
        ctx, &results));
    merger->Write(results, &executor);
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseMergeGradients").Device(tf::DEVICE_CPU),
                        MergeGradientsOnCpuOp);

}  // namespace
}  // namespace keras_sparse
