// Outputs of lookups: one an input, or one in which the rows of all inputs lie side by side.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_
#define KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_

#include <cstdint>
#include <vector>

#include "ops/core/operations/lookup.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace keras_sparse {

// Sets `width` to that of all rows side by side. InvalidArgument unless inputs have as many each.
absl::Status JoinedWidth(const std::vector<RowsShape>& shapes, int64_t* width);

// Makes the outputs. ResourceExhausted where there is no memory left.
//   are_joined  whether there is one: InvalidArgument unless inputs have as many rows each
//   rows        where those of each input begin
absl::Status AllocateRows(const std::vector<RowsShape>& shapes, bool are_joined,
                          std::vector<tf::Tensor>* outputs, std::vector<float*>* rows);

// The same for lookups in tables of this process: both fill in the requests.
absl::Status SetJoinedStride(std::vector<LookupRequest>* requests);
absl::Status AllocateRows(bool are_joined, std::vector<LookupRequest>* requests,
                          std::vector<tf::Tensor>* outputs);

// The shapes of an op's outputs `rows`, of which there are `num_outputs`: 1, or one an input.
absl::Status SetShapesOfRows(tf::shape_inference::InferenceContext* c,
                             const std::vector<tf::shape_inference::DimensionHandle>& num_rows,
                             const std::vector<int64_t>& dims);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_
