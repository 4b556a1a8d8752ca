// KerasSparseApplyChanges: brings a table from one state of a saved table to a later one.
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/operations/import_rows.h"
#include "ops/tf/binding/binding.h"
#include "ops/tf/binding/history_inputs.h"
#include "ops/tf/binding/tf_executor.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseApplyChanges")
    .Attr("M: int >= 0")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .KERAS_SPARSE_HISTORY_INPUTS.Input("erased: M * int64")
    .Input("keys: M * int64")
    .Input("records: M * float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class ApplyChangesOp : public tf::OpKernel {
 public:
  explicit ApplyChangesOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    RuleHistory history;
    tf::OpInputList erased;
    tf::OpInputList keys;
    tf::OpInputList records;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES(ctx, tables.size() == 1,
                InvalidInput(absl::StrCat(
                    "changes are those of one table. Received: ", tables.size(), " tables")));
    OP_REQUIRES_OK(ctx, ReadHistory(ctx, &history));
    OP_REQUIRES_OK(ctx, ctx->input_list("erased", &erased));
    OP_REQUIRES_OK(ctx, ctx->input_list("keys", &keys));
    OP_REQUIRES_OK(ctx, ctx->input_list("records", &records));
    std::vector<SavedChange> changes;
    for (int i = 0; i < keys.size(); ++i) {
      const int64_t n = keys[i].NumElements();
      OP_REQUIRES_OK(ctx, CheckRecordsShape(records[i], n));
      changes.push_back({erased[i].flat<int64_t>().data(), erased[i].NumElements(),
                         keys[i].flat<int64_t>().data(), records[i].flat<float>().data(), n,
                         records[i].dim_size(1)});
    }
    TfExecutor executor(ctx);
    OP_REQUIRES_OK(ctx, ToTf(ApplyChanges(tables[0], history, changes, &executor)));
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasSparseApplyChanges").Device(tf::DEVICE_CPU), ApplyChangesOp);
REGISTER_KERNEL_BUILDER(Name("KerasSparseApplyChanges")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("step")
                            .HostMemory("first_step")
                            .HostMemory("table_step")
                            .HostMemory("run_lengths")
                            .HostMemory("numbers")
                            .HostMemory("erased")
                            .HostMemory("keys")
                            .HostMemory("records"),
                        ApplyChangesOp);

}  // namespace keras_sparse
