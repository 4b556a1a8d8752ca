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
  // One for each of the table's lookups, in their order, all of one type; at least one. Ids may
  // repeat within bags, and within and across lookups.
  std::vector<OutputGradient> gradients;
  int64_t rule_generation;     // returned by SetRule; the slots must still be this rule's
  std::vector<float> numbers;  // for this step: the learning rate, then the rule's other numbers
};

// Makes one step of each table's rule, also if there are no ids: sums the gradients of equal ids in
// the order of lookups and ids, finds or creates each row, and updates the row in place, once. A
// gradient for a key that the table's filter rejects is dropped and counted. The result does not
// depend on the executor's threads.
//
// Returns InvalidArgument for an id outside a static table, a table that occurs twice, or numbers
// that do not fit the rule. If a static table reads such ids as zeros, their gradients are dropped
// instead. Returns FailedPrecondition if SetRule was called since. Nothing has changed then, nor if
// a GPU lacks room for new rows. After any other ResourceExhausted, some rows have been updated,
// and the rules have made their step.
Status ApplyGradients(const std::vector<ApplyRequest>& requests, Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_APPLY_H_
