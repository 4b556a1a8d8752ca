// Rows on their way out of a table: all of them by a walk, or those of some keys.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_EXPORT_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_EXPORT_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/table/embedding_table.h"
#include "ops/core/table/exported_rows.h"

namespace keras_sparse {

// Gives the next rows, about `max_rows`. A cursor is 0 at first, then the next_cursor of the piece
// before; -1 says that all is out, and gives an empty piece.
// FailedPrecondition if the table has changed since the walk began.
Status ExportRows(const EmbeddingTable& table, int64_t cursor, int64_t max_rows,
                  ExportedRows* rows);

// What a table has of some keys, in their order.
struct RowsOfKeys {
  int64_t record_floats = 0;
  std::vector<char> exist;     // (n) whether the key has a row
  std::vector<float> records;  // (n, record_floats): row, then slots, both as ExportRows gives them
};

// Reads the rows of these keys in all tiers. Changes nothing, and is no lookup: no row moves, none
// is made, and a filter is not asked. A key without a row has what a lookup reads for it, and slots
// as a new row begins with them; an id outside a static table zeros.
//   keys  (n), repeats allowed
// To the table it is no lookup; the tiers count what they were asked for.
// InvalidArgument for an id outside a static table that refuses it.
Status ReadRows(const EmbeddingTable& table, const int64_t* keys, int64_t n, Executor* executor,
                RowsOfKeys* rows);

// Whether each key has a row, in any tier. An id outside a static table has none.
//   keys  (n), repeats allowed
//   exist  (n)
// An error if a GPU that has some of the rows fails.
Status HaveRows(const EmbeddingTable& table, const std::vector<int64_t>& keys,
                std::vector<bool>* exist);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_EXPORT_ROWS_H_
