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

absl::Status JoinedWidth(const std::vector<RowsShape>& shapes, int64_t* width) {
  *width = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].num_rows != shapes[0].num_rows) {
      return InvalidInput(absl::StrCat(
          "inputs whose outputs are joined must have as many rows each. Give all inputs the same "
          "batch, or leave out `output_mode`. Received: ",
          shapes[0].num_rows, " of input 0, ", shapes[i].num_rows, " of input ", i));
    }
    *width += shapes[i].dim;
  }
  return absl::OkStatus();
}

absl::Status AllocateRows(const std::vector<RowsShape>& shapes, bool are_joined,
                          std::vector<tf::Tensor>* outputs, std::vector<float*>* rows) {
  int64_t joined_width = 0;
  if (are_joined) TF_RETURN_IF_ERROR(JoinedWidth(shapes, &joined_width));
  float* next = nullptr;
  for (const RowsShape& shape : shapes) {
    if (!are_joined || outputs->empty()) {
      const int64_t width = are_joined ? joined_width : shape.dim;
      outputs->emplace_back();
      TF_RETURN_IF_ERROR(MakeTensor(tf::DT_FLOAT, {shape.num_rows, width}, &outputs->back()));
      next = outputs->back().flat<float>().data();
    }
    rows->push_back(next);
    next += shape.dim;
  }
  return absl::OkStatus();
}

absl::Status SetJoinedStride(std::vector<LookupRequest>* requests) {
  int64_t width = 0;
  TF_RETURN_IF_ERROR(JoinedWidth(ShapesOf(*requests), &width));
  for (LookupRequest& request : *requests) request.row_stride = width;
  return absl::OkStatus();
}

absl::Status AllocateRows(bool are_joined, std::vector<LookupRequest>* requests,
                          std::vector<tf::Tensor>* outputs) {
  std::vector<float*> rows;
  TF_RETURN_IF_ERROR(AllocateRows(ShapesOf(*requests), are_joined, outputs, &rows));
  for (size_t i = 0; i < rows.size(); ++i) (*requests)[i].rows = rows[i];
  return absl::OkStatus();
}

absl::Status SetShapesOfRows(tf::shape_inference::InferenceContext* c,
                             const std::vector<tf::shape_inference::DimensionHandle>& num_rows,
                             const std::vector<int64_t>& dims) {
  int64_t num_outputs = 0;
  TF_RETURN_IF_ERROR(c->GetAttr("num_outputs", &num_outputs));
  if (num_outputs != 1 && num_outputs != static_cast<int64_t>(dims.size())) {
    return InvalidInput("`num_outputs` must be 1 or that of inputs");
  }
  tf::shape_inference::DimensionHandle joined_rows = c->UnknownDim();
  int64_t joined_dim = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (num_outputs > 1) {
      c->set_output(static_cast<int>(i), c->Matrix(num_rows[i], c->MakeDim(dims[i])));
    } else {
      TF_RETURN_IF_ERROR(c->Merge(joined_rows, num_rows[i], &joined_rows));
      joined_dim += dims[i];
    }
  }
  if (num_outputs == 1) c->set_output(0, c->Matrix(joined_rows, c->MakeDim(joined_dim)));
  return absl::OkStatus();
}

}  // namespace keras_sparse
