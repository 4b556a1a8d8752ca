// ImportRows and ApplyChanges: rows that come into a table from outside, or (PromoteRows) from
// below.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_IMPORT_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_IMPORT_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/optimizer/update_history.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Writes rows, creating those that are not there. Of a repeated key the last row stays.
//   keys     (n)
//   records  (n, width): row and slots if width is the table's record_floats, only the row if it is
//            dim; slots then stay, or are the initial ones in a new row; with the words of
//            RecordLayout if it is all of a record
//   ages     (n), or null for ages of 0; nothing to a table that does not keep them
//   frequencies  (n), or null: those of existing rows stay, and are 0 of new ones; likewise
// InvalidArgument for another width, a key outside a static table, or steps that the rule does not
// remember; nothing is changed then.
Status ImportRows(EmbeddingTable* table, const int64_t* keys, int64_t n, const float* records,
                  int64_t width, Executor* executor, const uint32_t* ages = nullptr,
                  const uint32_t* frequencies = nullptr);

// What has changed in a saved table: first rows go, then others come.
struct SavedChange {
  const int64_t* erased;  // (num_erased)
  int64_t num_erased;
  const int64_t* keys;   // (n)
  const float* records;  // (n, width), as ImportRows takes them
  int64_t n;
  int64_t width;
};

// Brings a table from one state of a saved table to a later one, which lookups see before it or
// after it. The rule is that of the saved one.
//   history  of the later state
//   changes  all since the state that the table is in, in order
// InvalidArgument as ImportRows has it, or if the history does not go on from the table's;
// Unimplemented for rows to erase in a static table. Nothing is changed then. After an error of a
// tier the table is between both states, and must be loaded anew.
Status ApplyChanges(EmbeddingTable* table, const RuleHistory& history,
                    const std::vector<SavedChange>& changes, Executor* executor);

// What PromoteRows has done.
struct Promotion {
  int64_t num_rows = 0;  // that came from lower tiers
  // TableState::snapshot_version, for who has to know that nothing else has changed the table.
  int64_t version_before = 0;
  int64_t version = 0;
};

// Brings rows from lower tiers into the first one, as their next gradient would. To the first tier
// it is a use of all of these rows at once. To the next delta those that came have changed.
//   keys  (n); those without a row are left out
// InvalidArgument for a key outside a static table; errors of the tiers, after which all rows are
// still there.
Status PromoteRows(EmbeddingTable* table, const int64_t* keys, int64_t n, Executor* executor,
                   Promotion* promotion);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_IMPORT_ROWS_H_
