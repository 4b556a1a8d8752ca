// ExportRows: the walk over all rows of a table.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_EXPORT_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_EXPORT_ROWS_H_

#include <cstdint>

#include "ops/core/base/status.h"
#include "ops/core/table/embedding_table.h"
#include "ops/core/table/exported_rows.h"

namespace keras_sparse {

// Gives the next rows, about `max_rows`. A cursor is 0 at first, then the next_cursor of the piece
// before; -1 says that all is out, and gives an empty piece.
// FailedPrecondition if the table has changed since the walk began.
Status ExportRows(const EmbeddingTable& table, int64_t cursor, int64_t max_rows,
                  ExportedRows* rows);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_EXPORT_ROWS_H_
