// KerasSparseImportFilter: writes entries into the admission filters of tables.
#include "absl/strings/str_cat.h"
#include "ops/core/operations/set_filter.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseImportFilter")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Input("counts: N * uint32")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeImportFilter(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList keys;
  tf::OpInputList counts;
  TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
  TF_RETURN_IF_ERROR(ctx->input_list("counts", &counts));
  for (int i = 0; i < keys.size(); ++i) {
    const int64_t n = keys[i].NumElements();
    if (counts[i].NumElements() != n) {
      return InvalidInput(absl::StrCat("`counts` must have one number a key, ", n,
                                       ". Received: ", counts[i].NumElements()));
    }
    TF_RETURN_IF_ERROR(
        ToTf(ImportFilter(tables[static_cast<size_t>(i)], keys[i].flat<int64_t>().data(),
                          counts[i].flat<uint32_t>().data(), n)));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeImportFilter>> kImportFilter("KerasSparseImportFilter",
                                                                       {"handles", "keys",
                                                                        "counts"});

}  // namespace keras_sparse
