// Ops that read a table for a checkpoint: see TableSnapshot.
#include <algorithm>
#include <string>

#include "ops/core/operations/table_snapshot.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

// KerasSparseSnapshotVersions: the version of each table, and whether all its rows have changed.
REGISTER_OP("KerasSparseSnapshotVersions")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Output("versions: int64")
    .Output("is_everything_changed: bool")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      for (int i = 0; i < 2; ++i) c->set_output(i, c->Vector(c->num_inputs()));
      return absl::OkStatus();
    });

static absl::Status ComputeSnapshotVersions(tf::OpKernelContext* ctx, const TableList& tables) {
  const auto n = static_cast<int64_t>(tables.size());
  tf::Tensor* versions = nullptr;
  tf::Tensor* is_everything_changed = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {n}, &versions));
  TF_RETURN_IF_ERROR(ctx->allocate_output(1, {n}, &is_everything_changed));
  for (int64_t i = 0; i < n; ++i) {
    const TableSnapshot snapshot(tables[static_cast<size_t>(i)]);
    versions->flat<int64_t>()(i) = snapshot.version();
    is_everything_changed->flat<bool>()(i) = snapshot.is_everything_changed();
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeSnapshotVersions>> kSnapshotVersions(
    "KerasSparseSnapshotVersions", {"handles", "versions", "is_everything_changed"});

// KerasSparseExportRaw: the next records of a table as its tiers store them, starting at a cursor.
REGISTER_OP("KerasSparseExportRaw")
    .Attr("N: int >= 1")
    .Attr("only_changed: bool")
    .Attr("only_unlinked: bool")
    .Input("handles: N * resource")
    .Input("cursor: int64")
    .Input("max_rows: int64")
    .Output("keys: int64")
    .Output("records: float")  // the bits of whole records; the last words may be integers
    .Output("next_cursor: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->Matrix(c->UnknownDim(), c->UnknownDim()));
      c->set_output(2, c->Scalar());
      return absl::OkStatus();
    });

class ExportRawOp : public tf::OpKernel {
 public:
  explicit ExportRawOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("only_changed", &selection_.only_changed));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("only_unlinked", &selection_.only_unlinked));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    const tf::Tensor* cursor = nullptr;
    const tf::Tensor* max_rows = nullptr;
    OP_REQUIRES_OK(ctx, ctx->input("cursor", &cursor));
    OP_REQUIRES_OK(ctx, ctx->input("max_rows", &max_rows));
    OP_REQUIRES(ctx,
                tables.size() == 1 && cursor->NumElements() == 1 && max_rows->NumElements() == 1,
                InvalidInput("`cursor` and `max_rows` must be one number each"));
    RawRows rows;
    OP_REQUIRES_OK(ctx, ToTf(TableSnapshot(tables[0]).Export(selection_, cursor->flat<int64_t>()(0),
                                                             max_rows->flat<int64_t>()(0), &rows)));
    const auto n = static_cast<int64_t>(rows.keys.size());
    tf::Tensor* keys = nullptr;
    tf::Tensor* records = nullptr;
    tf::Tensor* next_cursor = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("keys", {n}, &keys));
    OP_REQUIRES_OK(ctx, ctx->allocate_output("records", {n, rows.record_bytes / 4}, &records));
    OP_REQUIRES_OK(ctx, ctx->allocate_output("next_cursor", {}, &next_cursor));
    std::copy(rows.keys.begin(), rows.keys.end(), keys->flat<int64_t>().data());
    std::copy(rows.records.begin(), rows.records.end(),
              reinterpret_cast<char*>(records->flat<float>().data()));
    next_cursor->scalar<int64_t>()() = rows.next_cursor;
  }

 private:
  RawSelection selection_;
};

const RegisterOnCpuAndGpu<ExportRawOp> kExportRaw("KerasSparseExportRaw",
                                                  {"handles", "cursor", "max_rows", "keys",
                                                   "records", "next_cursor"});

// KerasSparseLinkFiles: creates second names for the files of a table's lower tiers.
//
// The path is not an attribute: TensorFlow reuses an earlier eager op if the beginnings of its
// attributes are equal, and files would be linked into another checkpoint.
REGISTER_OP("KerasSparseLinkFiles")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("path_prefix: string")
    .Output("paths: string")
    .Output("num_entries: int64")
    .Output("alive: uint8")  // of all files in order, each starting with a whole byte
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

// KerasSparseErasedKeys: the keys whose rows were erased since the table was saved.
REGISTER_OP("KerasSparseErasedKeys")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Output("keys: N * int64")
    .SetIsStateful()
    .SetShapeFn(VectorShapes);

static absl::Status ComputeErasedKeys(tf::OpKernelContext* ctx, const TableList& tables) {
  for (size_t i = 0; i < tables.size(); ++i) {
    TF_RETURN_IF_ERROR(
        CopyToOutput(TableSnapshot(tables[i]).ErasedKeys(), static_cast<int>(i), ctx));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeErasedKeys>> kErasedKeys("KerasSparseErasedKeys",
                                                                   {"handles", "keys"});

// KerasSparseMarkSaved: counts changes of the tables from here on.
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
