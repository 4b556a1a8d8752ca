// Outputs of lookups: one per input, or one in which the rows of all inputs are side by side.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_
#define KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_

#include <cstdint>
#include <vector>

#include "ops/core/operations/lookup.h"
#include "ops/tf/binding/binding.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace keras_sparse {

// Number and type of an op's outputs: its attributes `num_outputs`, which is 1 or the number of
// inputs, and `out_type`.
struct OutputForm {
  bool are_joined;
  FloatType type;
};
absl::Status ReadOutputForm(tf::OpKernelConstruction* ctx, size_t num_inputs, OutputForm* form);

// Returns InvalidArgument unless all inputs have the same number of rows, so that they can be
// joined.
absl::Status CheckNumRows(const std::vector<RowsShape>& shapes);

// Sets the stride and type of the rows of an op's inputs for outputs that are not allocated yet.
// Calls CheckNumRows for joined outputs.
absl::Status PlanRows(const std::vector<RowsShape>& shapes, const OutputForm& form,
                      OutputRows* rows);
// Allocates the outputs. Returns ResourceExhausted if there is no memory left.
//   plan    from PlanRows
//   rows    receives the rows of each input
//   memory  from OutputMemory
absl::Status AllocateRows(const std::vector<RowsShape>& shapes, const OutputRows& plan,
                          std::vector<tf::Tensor>* outputs, std::vector<OutputRows>* rows,
                          tf::Allocator* memory = nullptr);

// As above, for lookups in tables of this process: both fill in the requests.
absl::Status PlanRows(const OutputForm& form, std::vector<LookupRequest>* requests);
absl::Status AllocateRows(std::vector<LookupRequest>* requests, std::vector<tf::Tensor>* outputs,
                          tf::Allocator* memory = nullptr);

// Sets the shapes of an op's outputs `rows`: one per input of a lookup, or one for all of them.
//   ids         inputs with one element per row if the lookup has no combiner
//   row_splits  inputs with one more element than rows if it has a combiner
absl::Status SetShapesOfRows(tf::shape_inference::InferenceContext* c, const char* ids,
                             const char* row_splits);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_
