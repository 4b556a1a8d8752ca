// Outputs of lookups: one a table, or one in which the rows of all tables lie side by side.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_
#define KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_

#include <cstdint>
#include <vector>

#include "ops/core/operations/lookup.h"
#include "ops/tf/binding/binding.h"

namespace keras_sparse {

// Says in the requests that their rows lie side by side. InvalidArgument unless all have as many.
absl::Status JoinRows(std::vector<LookupRequest>* requests);

// Makes the outputs and says in the requests where their rows go: to the one output, side by side,
// where all have the stride of JoinRows, and to one each otherwise. ResourceExhausted where there
// is no memory left.
absl::Status AllocateRows(bool are_joined, std::vector<LookupRequest>* requests,
                          std::vector<tf::Tensor>* outputs);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_LOOKUP_OUTPUTS_H_
