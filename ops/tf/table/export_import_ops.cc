// Ops that export and import rows of tables.
#include "absl/strings/str_cat.h"
#include "ops/core/operations/export_rows.h"
#include "ops/core/operations/import_rows.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

// KerasSparseExport: the next rows of each table, with slots, starting at a cursor.
REGISTER_OP("KerasSparseExport")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("cursors: int64")
    .Input("max_rows: int64")
    .Output("keys: N * int64")
    .Output("records: N * float")
    .Output("ages: N * uint32")
    .Output("frequencies: N * uint32")
    .Output("next_cursors: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      int n = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("N", &n));
      for (int i = 0; i < n; ++i) {
        c->set_output(i, c->Vector(c->UnknownDim()));
        c->set_output(n + i, c->Matrix(c->UnknownDim(), c->UnknownDim()));
        c->set_output(2 * n + i, c->Vector(c->UnknownDim()));
        c->set_output(3 * n + i, c->Vector(c->UnknownDim()));
      }
      c->set_output(4 * n, c->Vector(n));
      return absl::OkStatus();
    });

static absl::Status ComputeExport(tf::OpKernelContext* ctx, const TableList& tables) {
  const tf::Tensor* cursors = nullptr;
  const tf::Tensor* max_rows = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("cursors", &cursors));
  TF_RETURN_IF_ERROR(ctx->input("max_rows", &max_rows));
  const auto n = static_cast<int64_t>(tables.size());
  if (cursors->NumElements() != n || max_rows->NumElements() != 1) {
    return InvalidInput("`cursors` must have one number a table, `max_rows` one");
  }
  tf::OpOutputList keys;
  tf::OpOutputList records;
  TF_RETURN_IF_ERROR(ctx->output_list("keys", &keys));
  tf::OpOutputList ages;
  tf::OpOutputList frequencies;
  TF_RETURN_IF_ERROR(ctx->output_list("records", &records));
  TF_RETURN_IF_ERROR(ctx->output_list("ages", &ages));
  TF_RETURN_IF_ERROR(ctx->output_list("frequencies", &frequencies));
  tf::Tensor* next_cursors = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output("next_cursors", {n}, &next_cursors));
  for (int i = 0; i < n; ++i) {
    ExportedRows rows;
    TF_RETURN_IF_ERROR(ToTf(
        ExportRows(*tables[i], cursors->flat<int64_t>()(i), max_rows->flat<int64_t>()(0), &rows)));
    const auto num_rows = static_cast<int64_t>(rows.keys.size());
    TF_RETURN_IF_ERROR(CopyToOutput(rows.keys, {num_rows}, i, &keys));
    TF_RETURN_IF_ERROR(CopyToOutput(rows.records, {num_rows, rows.record_floats}, i, &records));
    const auto num_ages = static_cast<int64_t>(rows.ages.size());
    const auto num_frequencies = static_cast<int64_t>(rows.frequencies.size());
    TF_RETURN_IF_ERROR(CopyToOutput(rows.ages, {num_ages}, i, &ages));
    TF_RETURN_IF_ERROR(CopyToOutput(rows.frequencies, {num_frequencies}, i, &frequencies));
    next_cursors->flat<int64_t>()(i) = rows.next_cursor;
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeExport>> kExport("KerasSparseExport",
                                                           {"handles", "cursors", "max_rows",
                                                            "keys", "records", "ages",
                                                            "frequencies", "next_cursors"});

// KerasSparseImport: writes rows, with or without their slots, into tables.
REGISTER_OP("KerasSparseImport")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Input("records: N * float")
    .Input("ages: N * uint32")         // empty for ages of 0
    .Input("frequencies: N * uint32")  // empty to keep those of the rows
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

// Reads one word per key, or null.
static absl::Status ReadWords(const char* name, const tf::Tensor& tensor, int64_t n,
                              const uint32_t** words) {
  const int64_t size = tensor.NumElements();
  if (size != n && size != 0) {
    return InvalidInput(absl::StrCat("`", name, "` must have one number a key, ", n,
                                     ", or none. Received: ", size));
  }
  if (size > 0) *words = tensor.flat<uint32_t>().data();
  return absl::OkStatus();
}

static absl::Status ComputeImport(tf::OpKernelContext* ctx, const TableList& tables) {
  tf::OpInputList keys;
  tf::OpInputList records;
  tf::OpInputList ages;
  tf::OpInputList frequencies;
  TF_RETURN_IF_ERROR(ctx->input_list("keys", &keys));
  TF_RETURN_IF_ERROR(ctx->input_list("records", &records));
  TF_RETURN_IF_ERROR(ctx->input_list("ages", &ages));
  TF_RETURN_IF_ERROR(ctx->input_list("frequencies", &frequencies));
  TfExecutor executor(ctx);
  for (int i = 0; i < keys.size(); ++i) {
    const int64_t n = keys[i].NumElements();
    TF_RETURN_IF_ERROR(CheckRecordsShape(records[i], n));
    const uint32_t* age = nullptr;
    const uint32_t* frequency = nullptr;
    TF_RETURN_IF_ERROR(ReadWords("ages", ages[i], n, &age));
    TF_RETURN_IF_ERROR(ReadWords("frequencies", frequencies[i], n, &frequency));
    TF_RETURN_IF_ERROR(ToTf(ImportRows(tables[i], keys[i].flat<int64_t>().data(), n,
                                       records[i].flat<float>().data(), records[i].dim_size(1),
                                       &executor, age, frequency)));
  }
  return absl::OkStatus();
}

const RegisterOnCpuAndGpu<TablesOp<ComputeImport>> kImport("KerasSparseImport",
                                                           {"handles", "keys", "records", "ages",
                                                            "frequencies"});

}  // namespace keras_sparse
