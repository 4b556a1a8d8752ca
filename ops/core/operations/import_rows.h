// ImportRows: rows that come into a table from outside.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_IMPORT_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_IMPORT_ROWS_H_

#include <cstdint>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Writes rows, creating those that are not there. Of a repeated key the last row stays.
//   keys     (n)
//   records  (n, width): row and slots if width is the table's record_floats, only the row if it is
//            dim; slots then stay, or are the initial ones in a new row; with the steps of
//            RecordLayout if it is all of a record's words
//   ages     (n), or null for ages of 0; nothing to a table that does not keep them
// InvalidArgument for another width, a key outside a static table, or steps that the rule does not
// remember; nothing is changed then.
Status ImportRows(EmbeddingTable* table, const int64_t* keys, int64_t n, const float* records,
                  int64_t width, Executor* executor, const uint32_t* ages = nullptr);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_IMPORT_ROWS_H_
