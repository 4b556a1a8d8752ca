// KerasSparseMergeGradients, for CPU and GPU.
#ifndef KERAS_SPARSE_OPS_TF_STEP_MERGE_GRADIENTS_OP_H_
#define KERAS_SPARSE_OPS_TF_STEP_MERGE_GRADIENTS_OP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/core/gradients/gradient_merger.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace keras_sparse {

class MergeGradientsOp : public tf::OpKernel {
 public:
  explicit MergeGradientsOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("columns", &columns_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("widths", &widths_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("max_entries", &max_entries_));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    BagInputs inputs;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, combiners_));
    std::vector<OutputGradient> gradients;
    OP_REQUIRES_OK(ctx, ReadOutputGradients(ctx, inputs, columns_, widths_, &gradients));
    OP_REQUIRES_OK(ctx, CheckMaxEntries(gradients.size()));
    for (size_t g = 0; g < max_entries_.size(); ++g) gradients[g].max_entries = max_entries_[g];
    OP_REQUIRES_OK(ctx, Merge(gradients, ctx));
  }

 protected:
  // Finds the distinct ids and writes the outputs, which it allocates by MakeResults.
  virtual absl::Status Merge(const std::vector<OutputGradient>& gradients,
                             tf::OpKernelContext* ctx) = 0;

  // Allocates the outputs; `num_entries(g)` returns the number of ids of each.
  //   allocate  (output, shape, &data) allocates an output of floats
  template <typename NumEntries, typename AllocateFloats>
  static absl::Status MakeResults(const std::vector<OutputGradient>& gradients,
                                  const NumEntries& num_entries, const AllocateFloats& allocate,
                                  tf::OpKernelContext* ctx,
                                  std::vector<GradientMerger::Result>* results) {
    tf::OpOutputList unique_ids;
    TF_RETURN_IF_ERROR(ctx->output_list("unique_ids", &unique_ids));
    for (size_t g = 0; g < gradients.size(); ++g) {
      const int64_t n = num_entries(g);
      const int output = static_cast<int>(g);
      tf::Tensor* ids = nullptr;
      float* values = nullptr;
      TF_RETURN_IF_ERROR(unique_ids.allocate(output, {n}, &ids));
      TF_RETURN_IF_ERROR(allocate(static_cast<int>(gradients.size()) + output,
                                  tf::TensorShape({n, gradients[g].dim}), &values));
      results->push_back({ids->flat<int64_t>().data(), values});
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckMaxEntries(size_t num_tables) const {
    const auto is_allowed = [](int64_t most) { return most >= 1; };
    const bool are_allowed = std::all_of(max_entries_.begin(), max_entries_.end(), is_allowed);
    if (max_entries_.empty() || (max_entries_.size() == num_tables && are_allowed)) {
      return absl::OkStatus();
    }
    return InvalidInput(
        absl::StrCat("`max_entries` must have one number above 0 a table, or none. Received: [",
                     absl::StrJoin(max_entries_, ", "), "] for ", num_tables, " tables"));
  }

  std::vector<Combiner> combiners_;
  std::vector<int64_t> columns_;
  std::vector<int64_t> widths_;
  std::vector<int64_t> max_entries_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_STEP_MERGE_GRADIENTS_OP_H_
