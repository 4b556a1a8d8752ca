// Ops of admission filters.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/core/operations/set_filter.h"
#include "ops/tf/binding/kernel.h"

namespace keras_sparse {

// KerasSparseSetFilter: sets the admission filter of tables.
REGISTER_OP("KerasSparseSetFilter")
    .Attr("N: int >= 1")
    .Attr("filter: string")
    .Attr("constant_names: list(string)")
    .Attr("seeds: list(int)")
    .Attr("reads_initial_rows: bool")
    .Attr("default_value: float")
    .Input("handles: N * resource")
    .Input("constants: double")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

class SetFilterOp : public tf::OpKernel {
 public:
  explicit SetFilterOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    int n = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &n));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("filter", &filter_.filter));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("constant_names", &constant_names_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seeds", &seeds_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reads_initial_rows", &filter_.reads_initial_rows));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("default_value", &filter_.default_value));
    OP_REQUIRES(ctx, static_cast<int>(seeds_.size()) == n,
                InvalidInput(absl::StrCat("`seeds` must have one number a table, ", n,
                                          ". Received: ", seeds_.size())));
  }

  void Compute(tf::OpKernelContext* ctx) override {
    TableList tables;
    OP_REQUIRES_OK(ctx, tables.Read(ctx));
    FilterOptions filter = filter_;
    OP_REQUIRES_OK(ctx, ReadConstants(ctx, constant_names_, &filter.constants));
    for (size_t i = 0; i < tables.size(); ++i) {
      filter.seed = seeds_[i];
      OP_REQUIRES_OK(ctx, ToTf(SetFilter(tables[i], filter)));
    }
  }

 private:
  FilterOptions filter_;
  std::vector<std::string> constant_names_;
  std::vector<int64_t> seeds_;
};

const RegisterOnCpuAndGpu<SetFilterOp> kSetFilter("KerasSparseSetFilter", {"handles", "constants"});

// KerasSparseExportFilter: the next entries of each table's admission filter, starting at a cursor.
REGISTER_OP("KerasSparseExportFilter")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("cursors: int64")
    .Input("max_entries: int64")
    .Output("keys: N * int64")
    .Output("counts: N * uint32")
    .Output("next_cursors: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      for (int i = 0; i < 2 * n; ++i) c->set_output(i, c->Vector(c->UnknownDim()));
      c->set_output(2 * n, c->Vector(n));
      return absl::OkStatus();
    });

static absl::Status ComputeExportFilter(tf::OpKernelContext* ctx, const TableList& tables) {
  const tf::Tensor* cursors = nullptr;
  const tf::Tensor* max_entries = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("cursors", &cursors));
  TF_RETURN_IF_ERROR(ctx->input("max_entries", &max_entries));
  const auto n = static_cast<int64_t>(tables.size());
  if (cursors->NumElements() != n || max_entries->NumElements() != 1) {
    return InvalidInput("`cursors` must have one number a table, `max_entries` one");
  }
  tf::OpOutputList keys;
  tf::OpOutputList counts;
  TF_RETURN_IF_ERROR(ctx->output_list("keys", &keys));
  TF_RETURN_IF_ERROR(ctx->output_list("counts", &counts));
  tf::Tensor* next_cursors = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output("next_cursors", {n}, &next_cursors));
  for (int i = 0; i < n; ++i) {
    FilterEntries entries;
    TF_RETURN_IF_ERROR(
        ToTf(ExportFilter(*tables[static_cast<size_t>(i)], cursors->flat<int64_t>()(i),
                          max_entries->flat<int64_t>()(0), &entries)));
    const auto num_entries = static_cast<int64_t>(entries.keys.size());
    TF_RETURN_IF_ERROR(CopyToOutput(entries.keys, {num_entries}, i, &keys));
    TF_RETURN_IF_ERROR(CopyToOutput(entries.counts, {num_entries}, i, &counts));
    next_cursors->flat<int64_t>()(i) = entries.next_cursor;
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeExportFilter>> kExportFilter("KerasSparseExportFilter",
                                                                       {"handles", "cursors",
                                                                        "max_entries", "keys",
                                                                        "counts", "next_cursors"});

// KerasSparseImportFilter: writes entries into the admission filters of tables.
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
