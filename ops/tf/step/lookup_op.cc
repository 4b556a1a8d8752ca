// KerasSparseLookup: ids -> rows, or pooled rows, of many tables at once.
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/operations/device_operations.h"
#include "ops/core/operations/lookup.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/lookup_outputs.h"
#include "ops/tf/binding/tf_device.h"
#include "ops/tf/binding/tf_executor.h"
#include "ops/tf/staging/prefetched_rows.h"

namespace keras_sparse {

// `num_outputs` is N, or 1 for the rows of all tables side by side; `out_type` is their type. The
// tables `updated` may get gradients of these ids: on a GPU they keep the row indices for the
// update. Python registers the gradient, which alone uses:
//   anchors        the variables that receive the gradients of the tables `trained`
//   gradient_rows  rows in the dense shape of each table's gradient
//   max_entries    maximum number of entries of an id in it, once merged
//   weighted       the tables whose weights have a gradient
REGISTER_OP("KerasSparseLookup")
    .Attr("N: int >= 1")
    .Attr("num_outputs: int >= 1")
    .Attr("out_type: {float, half, bfloat16} = DT_FLOAT")
    .Attr("num_anchors: int >= 0")
    .Attr("combiners: list(string)")
    .Attr("output_dims: list(int)")
    .Attr("gradient_rows: list(int)")
    .Attr("max_entries: list(int) = []")
    .Attr("trained: list(int)")
    .Attr("updated: list(int) = []")
    .Attr("weighted: list(int)")
    .Input("handles: N * resource")
    .Input("ids: N * int64")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Input("anchors: num_anchors * resource")
    .Output("rows: num_outputs * out_type")
    .Output("versions: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      TF_RETURN_IF_ERROR(SetShapesOfRows(c, "ids", "row_splits"));
      int64_t n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      c->set_output(c->num_outputs() - 1, c->Vector(n));
      return absl::OkStatus();
    });

class LookupOp : public tf::OpKernel {
 public:
  explicit LookupOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadCombiners(ctx, &combiners_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_dims", &output_dims_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("updated", &updated_));
    OP_REQUIRES_OK(ctx, ReadOutputForm(ctx, combiners_.size(), &form_));
    const auto num_tables = static_cast<int64_t>(combiners_.size());
    for (const int64_t i : updated_) {
      OP_REQUIRES(ctx, i >= 0 && i < num_tables,
                  InvalidInput(absl::StrCat("`updated` must have numbers of the tables, below ",
                                            num_tables, ". Received: ", i)));
    }
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    BagInputs inputs;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, combiners_));
    tf::Tensor* versions = nullptr;
    const auto num_tables = static_cast<int64_t>(tables.size());
    OP_REQUIRES_OK(ctx, ctx->allocate_output(num_outputs() - 1, {num_tables}, &versions));
    std::vector<LookupRequest> requests;
    for (size_t i = 0; i < tables.size(); ++i) {
      OP_REQUIRES(ctx, tables[i]->dim() == output_dims_[i],
                  InvalidInput(absl::StrCat(
                      "`output_dims` must be the tables' own. Received: ", output_dims_[i],
                      " for table '", tables[i]->name(), "' of ", tables[i]->dim())));
      requests.push_back({tables[i], inputs.ids(static_cast<int>(i)), inputs.bags(i), nullptr,
                          versions->flat<int64_t>().data() + i});
    }
    OP_REQUIRES_OK(ctx, PlanRows(form_, &requests));
    std::unique_ptr<PrefetchedRows> ready;
    OP_REQUIRES_OK(ctx, TakePrefetchedRows(tables.prefetch_buffer(0).get(), &requests, &ready));
    if (ready != nullptr && ready->has_outputs()) {
      SetOutputs(ctx, ready->outputs());
      return;
    }
    for (const int64_t i : updated_) {
      if (!IsOnDevice(*tables[static_cast<size_t>(i)])) continue;
      requests[static_cast<size_t>(i)].ids_owner = inputs.owner(static_cast<int>(i));
    }
    std::vector<tf::Tensor> outputs;
    OP_REQUIRES_OK(ctx, AllocateRows(&requests, &outputs, OutputMemory(ctx)));
    SetOutputs(ctx, outputs);
    TfExecutor executor(ctx);
    OP_REQUIRES_OK(ctx, ToTf(LookupRows(requests, &executor)));
  }

 private:
  static void SetOutputs(tf::OpKernelContext* ctx, const std::vector<tf::Tensor>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) ctx->set_output(static_cast<int>(i), outputs[i]);
  }

  std::vector<Combiner> combiners_;
  std::vector<int64_t> output_dims_;
  std::vector<int64_t> updated_;
  OutputForm form_;
};

const RegisterOnCpuAndGpu<LookupOp> kLookup("KerasSparseLookup",
                                            {"handles", "anchors", "versions"});

}  // namespace keras_sparse
