// ExportRows, ReadRows: copy rows out of a table, all of them by a walk, or those of some keys.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_EXPORT_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_EXPORT_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/table/embedding_table.h"
#include "ops/core/table/exported_rows.h"

namespace keras_sparse {

// Returns the next rows, about `max_rows`. Start with cursor 0, then pass the next_cursor of the
// previous chunk. Cursor -1 marks the end and returns an empty chunk. Returns FailedPrecondition if
// the table has changed since the walk began.
Status ExportRows(const EmbeddingTable& table, int64_t cursor, int64_t max_rows,
                  ExportedRows* rows);

// The rows of some keys, in their order.
struct RowsOfKeys {
  int64_t record_floats = 0;
  std::vector<char> exist;     // (n) whether the key has a row
  std::vector<float> records;  // (n, record_floats): row, then slots, as ExportRows returns them
};

// Reads the rows of these keys from all tiers. Changes nothing: no row moves or is created, and the
// filter is not asked. A key without a row returns the values that a lookup reads, and the initial
// slots of a new row. An id outside a static table returns zeros.
//   keys  (n), repeats allowed
// The table does not count this as a lookup; the tiers count their reads. Returns InvalidArgument
// for an id outside a static table that rejects it.
Status ReadRows(const EmbeddingTable& table, const int64_t* keys, int64_t n, Executor* executor,
                RowsOfKeys* rows);

// Returns whether each key has a row in any tier. An id outside a static table has none.
//   keys  (n), repeats allowed
//   exist  (n)
// Returns an error if a GPU that holds some of the rows fails.
Status HaveRows(const EmbeddingTable& table, const std::vector<int64_t>& keys,
                std::vector<bool>* exist);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_EXPORT_ROWS_H_
