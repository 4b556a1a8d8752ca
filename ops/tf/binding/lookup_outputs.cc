#include "ops/tf/binding/lookup_outputs.h"

#include "absl/strings/str_cat.h"
#include "ops/tf/binding/output_allocator.h"

namespace keras_sparse {

namespace {

std::vector<RowsShape> ShapesOf(const std::vector<LookupRequest>& requests) {
  std::vector<RowsShape> shapes;
  for (const LookupRequest& request : requests) {
    shapes.push_back({request.bags.num_bags, request.table->dim()});
  }
  return shapes;
}

}  // namespace

absl::Status ReadOutputForm(tf::OpKernelConstruction* ctx, size_t num_inputs, OutputForm* form) {
  int64_t num_outputs = 0;
  tf::DataType type = tf::DT_FLOAT;
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_outputs", &num_outputs));
  TF_RETURN_IF_ERROR(ctx->GetAttr("out_type", &type));
  *form = {num_outputs < static_cast<int64_t>(num_inputs), FloatTypeOf(type)};
  return absl::OkStatus();
}

absl::Status CheckNumRows(const std::vector<RowsShape>& shapes) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].num_rows != shapes[0].num_rows) {
      return InvalidInput(absl::StrCat(
          "inputs whose outputs are joined must have as many rows each. Give all inputs the same "
          "batch, or leave out `output_mode`. Received: ",
          shapes[0].num_rows, " of input 0, ", shapes[i].num_rows, " of input ", i));
    }
  }
  return absl::OkStatus();
}

absl::Status PlanRows(const std::vector<RowsShape>& shapes, const OutputForm& form,
                      OutputRows* rows) {
  *rows = {nullptr, 0, form.type};
  if (!form.are_joined) return absl::OkStatus();
  TF_RETURN_IF_ERROR(CheckNumRows(shapes));
  for (const RowsShape& shape : shapes) rows->stride += shape.dim;
  return absl::OkStatus();
}

absl::Status AllocateRows(const std::vector<RowsShape>& shapes, const OutputRows& plan,
                          std::vector<tf::Tensor>* outputs, std::vector<OutputRows>* rows,
                          tf::Allocator* memory) {
  const bool are_joined = plan.stride > 0;
  OutputRows next = plan;
  for (const RowsShape& shape : shapes) {
    if (!are_joined || outputs->empty()) {
      const int64_t width = are_joined ? plan.stride : shape.dim;
      outputs->emplace_back();
      const tf::DataType type = DataTypeOf(plan.type);
      TF_RETURN_IF_ERROR(MakeTensor(type, {shape.num_rows, width}, &outputs->back(), memory));
      next.data = outputs->back().data();
    }
    rows->push_back(next);
    next = next.From(shape.dim);
  }
  return absl::OkStatus();
}

absl::Status PlanRows(const OutputForm& form, std::vector<LookupRequest>* requests) {
  OutputRows plan;
  TF_RETURN_IF_ERROR(PlanRows(ShapesOf(*requests), form, &plan));
  for (LookupRequest& request : *requests) request.rows = plan;
  return absl::OkStatus();
}

absl::Status AllocateRows(std::vector<LookupRequest>* requests, std::vector<tf::Tensor>* outputs,
                          tf::Allocator* memory) {
  std::vector<OutputRows> rows;
  TF_RETURN_IF_ERROR(
      AllocateRows(ShapesOf(*requests), requests->front().rows, outputs, &rows, memory));
  for (size_t i = 0; i < rows.size(); ++i) (*requests)[i].rows = rows[i];
  return absl::OkStatus();
}

absl::Status SetShapesOfRows(tf::shape_inference::InferenceContext* c, const char* ids,
                             const char* row_splits) {
  std::vector<tf::shape_inference::ShapeHandle> of_ids;
  std::vector<tf::shape_inference::ShapeHandle> of_splits;
  std::vector<std::string> combiners;
  std::vector<int64_t> dims;
  TF_RETURN_IF_ERROR(c->input(ids, &of_ids));
  TF_RETURN_IF_ERROR(c->input(row_splits, &of_splits));
  TF_RETURN_IF_ERROR(c->GetAttr("combiners", &combiners));
  TF_RETURN_IF_ERROR(c->GetAttr("output_dims", &dims));
  if (combiners.size() != of_ids.size() || dims.size() != of_ids.size()) {
    return InvalidInput("`combiners` and `output_dims` must have one entry a table");
  }
  int64_t num_outputs = 0;
  TF_RETURN_IF_ERROR(c->GetAttr("num_outputs", &num_outputs));
  if (num_outputs != 1 && num_outputs != static_cast<int64_t>(dims.size())) {
    return InvalidInput("`num_outputs` must be 1 or that of inputs");
  }
  tf::shape_inference::DimensionHandle joined_rows = c->UnknownDim();
  int64_t joined_dim = 0;
  for (size_t i = 0; i < of_ids.size(); ++i) {
    tf::shape_inference::ShapeHandle checked;
    TF_RETURN_IF_ERROR(c->WithRank(of_ids[i], 1, &checked));
    TF_RETURN_IF_ERROR(c->WithRank(of_splits[i], 1, &checked));
    tf::shape_inference::DimensionHandle rows = c->Dim(of_ids[i], 0);
    if (combiners[i] != "none") {
      TF_RETURN_IF_ERROR(c->Subtract(c->Dim(of_splits[i], 0), 1, &rows));
    }
    if (num_outputs > 1) {
      c->set_output(static_cast<int>(i), c->Matrix(rows, c->MakeDim(dims[i])));
    } else {
      TF_RETURN_IF_ERROR(c->Merge(joined_rows, rows, &joined_rows));
      joined_dim += dims[i];
    }
  }
  if (num_outputs == 1) c->set_output(0, c->Matrix(joined_rows, c->MakeDim(joined_dim)));
  return absl::OkStatus();
}

}  // namespace keras_sparse
