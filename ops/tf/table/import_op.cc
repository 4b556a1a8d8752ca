// KerasSparseImport: writes rows, with or without their slots, into tables.
#include "absl/strings/str_cat.h"
#include "ops/core/operations/import_rows.h"
#include "ops/tf/binding/kernel.h"
#include "ops/tf/binding/tf_executor.h"

namespace keras_sparse {

REGISTER_OP("KerasSparseImport")
    .Attr("N: int >= 1")
    .Input("handles: N * resource")
    .Input("keys: N * int64")
    .Input("records: N * float")
    .Input("ages: N * uint32")         // empty for ages of 0
    .Input("frequencies: N * uint32")  // empty for those that rows have
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs);

// One word a key, or null.
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
