// LookupRows: turns ids into rows, or into pooled rows.
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
  int64_t* version = nullptr;       // if not null: returns the version of the table that was read
  uint32_t* num_updates = nullptr;  // if not null: returns the table's number of updates
  // If not null: the lookup caches the row indices for an update of the same ids. Holds references
  // to `ids` and `row_splits` so that their buffers stay valid; nobody may write to them. If all
  // requests have it, a lookup on a GPU does not wait: see CheckLookups.
  std::shared_ptr<const void> ids_owner = nullptr;
};

// Fills `rows` of each request. Changes nothing in a table; a key without a row reads as its
// initial row. All requests share the executor's threads, in runs of equal work. Returns
// InvalidArgument for an id outside a static table; `rows` are undefined then.
Status LookupRows(const std::vector<LookupRequest>& requests, Executor* executor);

// The ids of a lookup.
struct IdSpan {
  const int64_t* ids;  // (n) repeats allowed
  int64_t n;
};

// The ids of all lookups of a table in a step, in the memory of the table.
struct StepIds {
  EmbeddingTable* table;
  std::vector<IdSpan> lookups;
};

// Returns the errors of ids and bags that lookups of these ids on a GPU have not returned, as they
// did not wait for it. Waits for these lookups, and for no later work. The update of the ids
// returns these errors as well, before it changes anything.
Status CheckLookups(const std::vector<StepIds>& tables);

// As LookupRows, with ids, bags and weights in host memory. The rows are written to the memory of
// the tables, which must be the same for all, and can be read once this returns.
Status LookupRowsFromHost(const std::vector<LookupRequest>& requests, Executor* executor);

// As LookupRows, for tables in any memory. All pointers in `requests` are to host memory. For
// tables on a GPU, ids are copied to it and rows are copied back; these rows must be contiguous.
Status LookupRowsToHost(const std::vector<LookupRequest>& requests, Executor* executor);

// Counts the bytes that a lookup will write. Returns the bytes of all lookups of the process,
// including this one, since the last lookup of its tables; if tables differ, the maximum.
int64_t CountOutputs(const std::vector<LookupRequest>& requests);

// Fills `version` and `num_updates` of each request, as LookupRows does, without reading rows.
void ReadVersions(const std::vector<LookupRequest>& requests);

struct WeightsGradientRequest {
  EmbeddingTable* table;
  const int64_t* ids;         // (bags.num_ids)
  Bags bags;                  // with weights
  GradientRows output_grads;  // (bags.num_bags, dim)
  float* weight_grads;        // (bags.num_ids)
  int64_t version;            // returned by the lookup
};

// Computes the gradient of a pooled lookup with respect to its weights, by reading the rows again.
// Returns FailedPrecondition if a table has changed since the lookup.
Status LookupWeightsGradient(const std::vector<WeightsGradientRequest>& requests,
                             Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_LOOKUP_H_
