// Lookup: ids to rows, or to pooled rows.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_LOOKUP_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_LOOKUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/ids/bags.h"
#include "ops/core/math/strided_rows.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

struct LookupRequest {
  EmbeddingTable* table;
  const int64_t* ids;  // (bags.num_ids)
  Bags bags;
  OutputRows rows;                  // (bags.num_bags, dim)
  int64_t* version = nullptr;       // if not null: gets the version of the table that was read
  uint32_t* num_updates = nullptr;  // if not null: gets how many updates the table has had
  // If not null: an update of ids that are where these are need not find their rows again. While
  // it lives, ids and row_splits are where they are, and nobody writes to them.
  std::shared_ptr<const void> ids_owner = nullptr;
};

// Fills `rows` of each request. Changes nothing in a table; a key without a row gives its initial
// one. All requests share the executor's threads, cut into runs of equal work.
// InvalidArgument for an id outside a static table; `rows` are undefined then.
Status LookupRows(const std::vector<LookupRequest>& requests, Executor* executor);

// The same of ids, bags and weights in the CPU's memory. The rows are where the tables are, all in
// one memory, and may be read once this returns.
Status LookupRowsFromHost(const std::vector<LookupRequest>& requests, Executor* executor);

// The same for tables in any memory. What `requests` point to is the CPU's: of tables on a GPU ids
// go there, and rows come back, which must have nothing between them.
Status LookupRowsToHost(const std::vector<LookupRequest>& requests, Executor* executor);

// Counts what a lookup is about to write. Returns the bytes that all lookups of the process, with
// this one, have written since the last lookup of its tables; of tables that differ the most.
int64_t CountOutputs(const std::vector<LookupRequest>& requests);

// Fills `version` and `num_updates` of each request, as LookupRows does, without reading rows.
void ReadVersions(const std::vector<LookupRequest>& requests);

struct WeightsGradientRequest {
  EmbeddingTable* table;
  const int64_t* ids;         // (bags.num_ids)
  Bags bags;                  // with weights
  GradientRows output_grads;  // (bags.num_bags, dim)
  float* weight_grads;        // (bags.num_ids)
  int64_t version;            // that the lookup gave
};

// The gradient of a pooled lookup with respect to its weights. It reads the rows again.
// FailedPrecondition if a table has changed since the lookup.
Status LookupWeightsGradient(const std::vector<WeightsGradientRequest>& requests,
                             Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_LOOKUP_H_
