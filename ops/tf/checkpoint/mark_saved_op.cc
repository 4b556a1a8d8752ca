// KerasSparseMarkSaved: changes of the tables count from here on.
#include "ops/core/operations/table_snapshot.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseMarkSaved")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("versions: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeMarkSaved(tf::OpKernelContext* ctx, const TableList& tables) {
  const tf::Tensor* versions = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("versions", &versions));
  if (versions->NumElements() != static_cast<int64_t>(tables.size())) {
    return InvalidInput("`versions` must have one number a table");
  }
  std::vector<EmbeddingTable*> saved;
  for (size_t i = 0; i < tables.size(); ++i) saved.push_back(tables[i]);
  const int64_t* first = versions->flat<int64_t>().data();
  return ToTf(TableSnapshot::MarkSaved(saved, {first, first + versions->NumElements()}));
}

const RegisterOnCpuAndGpu<TablesOp<ComputeMarkSaved>> kMarkSaved("KerasSparseMarkSaved",
                                                                 {"handles", "versions"});

}  // namespace keras_sparse
