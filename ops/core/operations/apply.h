// Apply: one optimizer step on the rows of a batch.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_APPLY_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_APPLY_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/gradients/output_gradient.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

struct ApplyRequest {
  EmbeddingTable* table;
  OutputGradient gradient;     // ids may repeat, in a bag and over bags
  int64_t rule_generation;     // that SetRule gave: the slots must still be that optimizer's
  std::vector<float> numbers;  // of the step: the learning rate, then what else the rule takes
};

// For each table: sums the gradients of equal ids, finds each row or creates it, and updates it
// in place, once. That is one step of each table's rule, also if there are no ids. The gradient of
// a key that the table's filter does not admit is dropped and counted. The result does not depend
// on the executor's threads.
//
// InvalidArgument for an id outside a static table (unless such ids read as zeros: then they have
// no row to move), a table named twice, or numbers that are not the rule's; FailedPrecondition if a
// table was given a rule anew since. Nothing is changed then, nor where a GPU lacks room for
// new rows; any other ResourceExhausted leaves updated rows updated, and is a step of the rules.
Status ApplyGradients(const std::vector<ApplyRequest>& requests, Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_APPLY_H_
