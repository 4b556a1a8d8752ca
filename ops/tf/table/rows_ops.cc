// Ops of rows by their keys.
#include <algorithm>
#include <vector>

#include "ops/core/operations/evict_rows.h"
#include "ops/core/operations/export_rows.h"
#include "ops/core/operations/import_rows.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

// KerasSparseReadRows: reads the rows of keys, with slots, and which keys have one.
REGISTER_OP("KerasSparseReadRows")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Output("exist: N * bool")
    .Output("records: N * float")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      for (int i = 0; i < n; ++i) {
        const tf::shape_inference::DimensionHandle num_keys = c->NumElements(c->input(n + i));
        c->set_output(i, c->Vector(num_keys));
        c->set_output(n + i, c->Matrix(num_keys, c->UnknownDim()));
      }
      return absl::OkStatus();
    });

static absl::Status ComputeReadRows(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList keys;
  TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
  tf::OpOutputList exist;
  tf::OpOutputList records;
  TF_RETURN_IF_ERROR(ctx->output_list("exist", &exist));
  TF_RETURN_IF_ERROR(ctx->output_list("records", &records));
  TfExecutor executor(ctx);
  for (int i = 0; i < keys.size(); ++i) {
    const int64_t n = keys[i].NumElements();
    RowsOfKeys rows;
    TF_RETURN_IF_ERROR(
        ToTf(ReadRows(*tables[i], keys[i].flat<int64_t>().data(), n, &executor, &rows)));
    tf::Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(exist.allocate(i, {n}, &output));
    std::copy(rows.exist.begin(), rows.exist.end(), output->flat<bool>().data());
    TF_RETURN_IF_ERROR(CopyToOutput(rows.records, {n, rows.record_floats}, i, &records));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeReadRows>> kReadRows("KerasSparseReadRows",
                                                               {"handles", "keys", "exist",
                                                                "records"});

// KerasSparseHaveRows: returns which keys have a row.
REGISTER_OP("KerasSparseHaveRows")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Output("exist: N * bool")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      for (int i = 0; i < n; ++i) c->set_output(i, c->Vector(c->NumElements(c->input(n + i))));
      return absl::OkStatus();
    });

static absl::Status ComputeHaveRows(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList keys;
  TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
  tf::OpOutputList exist;
  TF_RETURN_IF_ERROR(ctx->output_list("exist", &exist));
  for (int i = 0; i < keys.size(); ++i) {
    const int64_t* first = keys[i].flat<int64_t>().data();
    const int64_t n = keys[i].NumElements();
    std::vector<bool> have;
    TF_RETURN_IF_ERROR(ToTf(HaveRows(*tables[i], {first, first + n}, &have)));
    TF_RETURN_IF_ERROR(CopyToOutput(have, {n}, i, &exist));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeHaveRows>> kHaveRows("KerasSparseHaveRows",
                                                               {"handles", "keys", "exist"});

// KerasSparseEraseRows: drops rows of tables by their keys.
REGISTER_OP("KerasSparseEraseRows")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

static absl::Status ComputeEraseRows(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList keys;
  TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
  TfExecutor executor(ctx);
  for (int i = 0; i < keys.size(); ++i) {
    TF_RETURN_IF_ERROR(ToTf(
        EraseRows(tables[i], keys[i].flat<int64_t>().data(), keys[i].NumElements(), &executor)));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeEraseRows>> kEraseRows("KerasSparseEraseRows",
                                                                 {"handles", "keys"});

// KerasSparsePromote: promotes rows of tables from lower tiers into the first one.
REGISTER_OP("KerasSparsePromote")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Output("num_promoted: int64")
    .Output("versions: int64")  // (N, 2), of each table before and after
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      c->set_output(0, c->Vector(n));
      c->set_output(1, c->Matrix(n, 2));
      return absl::OkStatus();
    });

static absl::Status ComputePromote(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList keys;
  tf::Tensor* num_promoted = nullptr;
  tf::Tensor* versions = nullptr;
  TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {keys.size()}, &num_promoted));
  TF_RETURN_IF_ERROR(ctx->allocate_output(1, {keys.size(), 2}, &versions));
  TfExecutor executor(ctx);
  for (int i = 0; i < keys.size(); ++i) {
    Promotion promotion;
    TF_RETURN_IF_ERROR(ToTf(PromoteRows(tables[i], keys[i].flat<int64_t>().data(),
                                        keys[i].NumElements(), &executor, &promotion)));
    num_promoted->flat<int64_t>()(i) = promotion.num_rows;
    versions->matrix<int64_t>()(i, 0) = promotion.version_before;
    versions->matrix<int64_t>()(i, 1) = promotion.version;
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputePromote>> kPromote("KerasSparsePromote",
                                                             {"handles", "keys", "num_promoted",
                                                              "versions"});

}  // namespace keras_sparse
