// Helpers of all lookups, wherever the rows are.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_LOOKUP_TABLES_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_LOOKUP_TABLES_H_

#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/operations/lookup.h"
#include "ops/core/table/embedding_table.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {

template <typename Request>
std::vector<const EmbeddingTable*> TablesOf(const std::vector<Request>& requests) {
  std::vector<const EmbeddingTable*> tables;
  tables.reserve(requests.size());
  for (const Request& request : requests) tables.push_back(request.table);
  return tables;
}

inline Status SeeVersion(const LookupRequest& request, const TableState& state) {
  if (request.version != nullptr) *request.version = state.version;
  if (request.num_updates != nullptr) *request.num_updates = state.rule_state.num_steps();
  return Status::Ok();
}

inline Status SeeVersion(const WeightsGradientRequest& request, const TableState& state) {
  if (request.version == state.version) return Status::Ok();
  return FailedPrecondition(
      "the gradient of weights needs the rows as they were looked up. Take "
      "it before the table is updated. Received: table '" +
      state.options.name + "', which has changed since the lookup");
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_LOOKUP_TABLES_H_
