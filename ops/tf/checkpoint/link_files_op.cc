// KerasSparseLinkFiles: second names for the files of a table's lower tiers.
#include <algorithm>
#include <string>

#include "ops/core/operations/table_snapshot.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

// The path is no attribute: TensorFlow takes an eager op for one that it has made before if their
// beginnings are the same, and files would be linked where those of another checkpoint are.
REGISTER_OP("KerasSparseLinkFiles")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("path_prefix: string")
    .Output("paths: string")
    .Output("num_entries: int64")
    .Output("alive: uint8")  // of all files one after the other, each from a whole byte on
    .SetIsStateful()
    .SetShapeFn(VectorShapes);

static absl::Status ComputeLinkFiles(tf::OpKernelContext* ctx, const TableList& tables) {
  const tf::Tensor* path_prefix = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("path_prefix", &path_prefix));
  if (path_prefix->NumElements() != 1) {
    return InvalidInput("`path_prefix` must be one path");
  }
  const std::string prefix = path_prefix->flat<tf::tstring>()(0);
  std::vector<LinkedFile> files;
  for (size_t i = 0; i < tables.size(); ++i) {
    TF_RETURN_IF_ERROR(ToTf(TableSnapshot(tables[i]).LinkFiles(prefix, &files)));
  }
  int64_t alive_bytes = 0;
  for (const LinkedFile& file : files) alive_bytes += static_cast<int64_t>(file.alive.size());
  const auto n = static_cast<int64_t>(files.size());
  tf::Tensor* paths = nullptr;
  tf::Tensor* num_entries = nullptr;
  tf::Tensor* alive = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {n}, &paths));
  TF_RETURN_IF_ERROR(ctx->allocate_output(1, {n}, &num_entries));
  TF_RETURN_IF_ERROR(ctx->allocate_output(2, {alive_bytes}, &alive));
  uint8_t* to = alive->flat<uint8_t>().data();
  for (int64_t i = 0; i < n; ++i) {
    const LinkedFile& file = files[static_cast<size_t>(i)];
    paths->flat<tf::tstring>()(i) = file.path;
    num_entries->flat<int64_t>()(i) = file.num_entries;
    to = std::copy(file.alive.begin(), file.alive.end(), to);
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeLinkFiles>> kLinkFiles("KerasSparseLinkFiles",
                                                                 {"handles", "path_prefix", "paths",
                                                                  "num_entries", "alive"});

}  // namespace keras_sparse
