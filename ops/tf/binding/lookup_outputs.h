// Outputs of lookups: one an input, or one in which the rows of all inputs lie side by side.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_
#define KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_

#include <cstdint>
#include <vector>

#include "ops/core/operations/lookup.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace keras_sparse {

// How many outputs an op has, and of which type: its attributes `num_outputs`, which is 1 or that
// of inputs, and `out_type`.
struct OutputForm {
  bool are_joined;
  FloatType type;
};
absl::Status ReadOutputForm(tf::OpKernelConstruction* ctx, size_t num_inputs, OutputForm* form);

// InvalidArgument unless inputs have as many rows each, so that they can be joined.
absl::Status CheckNumRows(const std::vector<RowsShape>& shapes);

// Gives the rows of an op's inputs the stride and type of its outputs, which are still to be made.
// Of joined ones CheckNumRows.
absl::Status PlanRows(const std::vector<RowsShape>& shapes, const OutputForm& form,
                      OutputRows* rows);
// Makes the outputs. ResourceExhausted where there is no memory left.
//   plan    of PlanRows
//   rows    gets those of each input
//   memory  of OutputMemory
absl::Status AllocateRows(const std::vector<RowsShape>& shapes, const OutputRows& plan,
                          std::vector<tf::Tensor>* outputs, std::vector<OutputRows>* rows,
                          tf::Allocator* memory = nullptr);

// The same for lookups in tables of this process: both fill in the requests.
absl::Status PlanRows(const OutputForm& form, std::vector<LookupRequest>* requests);
absl::Status AllocateRows(std::vector<LookupRequest>* requests, std::vector<tf::Tensor>* outputs,
                          tf::Allocator* memory = nullptr);

// The shapes of an op's outputs `rows`: one an input of a lookup, or one of all of them.
//   ids         the inputs that have an element a row where the lookup has no combiner
//   row_splits  the inputs that have one more elements than there are rows where it has one
absl::Status SetShapesOfRows(tf::shape_inference::InferenceContext* c, const char* ids,
                             const char* row_splits);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_
