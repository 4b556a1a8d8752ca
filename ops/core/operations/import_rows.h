// ImportRows, ApplyChanges: write rows from outside into a table. PromoteRows: moves rows up.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_IMPORT_ROWS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_IMPORT_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/optimizer/update_history.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Writes rows and creates missing ones. If a key repeats, its last row stays.
//   keys     (n)
//   records  (n, width). If width is the table's record_floats: row and slots. If width is dim: the
//            row only; slots stay, or are the initial ones in a new row. If width is that of a
//            whole float record: with the words of RecordLayout. A table with packed records rounds
//            to the nearest
//   ages     (n), or null for ages of 0; ignored by a table that does not keep ages
//   frequencies  (n), or null: existing rows keep theirs, and new rows get 0; ignored by a table
//            that does not keep frequencies
// Returns InvalidArgument for another width, a key outside a static table, or steps that the rule
// does not remember; nothing has changed then.
Status ImportRows(EmbeddingTable* table, const int64_t* keys, int64_t n, const float* records,
                  int64_t width, Executor* executor, const uint32_t* ages = nullptr,
                  const uint32_t* frequencies = nullptr);

// A change between two saved states of a table: first rows are erased, then others are written.
struct SavedChange {
  const int64_t* erased;  // (num_erased)
  int64_t num_erased;
  const int64_t* keys;   // (n)
  const float* records;  // (n, width), as in ImportRows
  int64_t n;
  int64_t width;
};

// Moves a table from one saved state to a later one. Lookups see the state before or after. The
// table must have the rule of the saved one.
//   history  of the later state
//   changes  all changes since the table's state, in order
// Returns InvalidArgument as ImportRows does, or if `history` does not continue the table's
// history. Returns Unimplemented for rows to erase in a static table. Nothing has changed then.
// After an error of a tier, the table is between both states and must be loaded again.
Status ApplyChanges(EmbeddingTable* table, const RuleHistory& history,
                    const std::vector<SavedChange>& changes, Executor* executor);

// Result of PromoteRows.
struct Promotion {
  int64_t num_rows = 0;  // rows promoted from lower tiers
  // TableState::snapshot_version before and after, for callers that must know that nothing else
  // changed the table.
  int64_t version_before = 0;
  int64_t version = 0;
};

// Promotes rows from lower tiers into the first tier, as their next gradient would. The first tier
// counts all of these rows as used at once. Promoted rows count as changed for the next delta.
//   keys  (n); keys without a row are skipped
// Returns InvalidArgument for a key outside a static table. After an error of a tier, all rows are
// still there.
Status PromoteRows(EmbeddingTable* table, const int64_t* keys, int64_t n, Executor* executor,
                   Promotion* promotion);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_IMPORT_ROWS_H_
