#include "ops/tf/binding/lookup_outputs.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/tf/binding/output_allocator.h"

namespace keras_sparse {

absl::Status JoinRows(std::vector<LookupRequest>* requests) {
  const int64_t num_rows = requests->front().bags.num_bags;
  int64_t stride = 0;
  for (const LookupRequest& request : *requests) {
    if (request.bags.num_bags != num_rows) {
      return InvalidInput(absl::StrCat(
          "inputs whose outputs are joined must have as many rows each. Received: ", num_rows,
          " of table '", requests->front().table->name(), "', ", request.bags.num_bags,
          " of table '", request.table->name(), "'"));
    }
    stride += request.table->dim();
  }
  for (LookupRequest& request : *requests) request.row_stride = stride;
  return absl::OkStatus();
}

absl::Status AllocateRows(bool are_joined, std::vector<LookupRequest>* requests,
                          std::vector<tf::Tensor>* outputs) {
  float* next = nullptr;
  for (LookupRequest& request : *requests) {
    if (!are_joined || next == nullptr) {
      outputs->emplace_back();
      TF_RETURN_IF_ERROR(
          MakeTensor(tf::DT_FLOAT, {request.bags.num_bags, request.stride()}, &outputs->back()));
      next = outputs->back().flat<float>().data();
    }
    request.rows = next;
    next += request.table->dim();
  }
  return absl::OkStatus();
}

}  // namespace keras_sparse
