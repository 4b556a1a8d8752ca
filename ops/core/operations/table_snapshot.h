// TableSnapshot: reads the rows of a table for a checkpoint, or their changes since the last one.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_TABLE_SNAPSHOT_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_TABLE_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Selects rows of a table.
struct RawSelection {
  bool only_changed = false;  // since the last MarkSaved
  // Only rows in no file of LinkFiles, which has just succeeded. With `only_changed`, changed rows
  // of a store that links only some of its rows are still included.
  bool only_unlinked = false;
};

// Records as the tiers store them: with step words, and with missed steps not applied.
struct RawRows {
  int64_t record_bytes = 0;
  std::vector<int64_t> keys;  // (n)
  std::vector<char> records;  // (n, record_bytes)
  int64_t next_cursor = -1;
};

// The state of a table while its version is unchanged. All reads are of one state if the version
// before the first read is still the version after the last one; MarkSaved checks this.
//
// Thread safety: every method may be called from any thread.
class TableSnapshot {
 public:
  explicit TableSnapshot(const EmbeddingTable* table) : table_(table) {}

  // Changes with every change that may affect a row, and with MarkSaved.
  int64_t version() const;
  // Returns whether every row counts as changed.
  bool is_everything_changed() const;

  // Cursors are as in ExportRows.
  Status Export(const RawSelection& selection, int64_t cursor, int64_t max_rows,
                RawRows* rows) const;
  // Returns the keys whose rows were erased since the last MarkSaved and do not exist again.
  std::vector<int64_t> ErasedKeys() const;

  // Links the files of the lower tiers: see RowStore::LinkFiles. After an error some may be there.
  Status LinkFiles(const std::string& path_prefix, std::vector<LinkedFile>* files) const;

  // Records that all tables have been saved: changes are counted from here. Returns
  // FailedPrecondition if a table no longer has its version; nothing has changed then.
  static Status MarkSaved(const std::vector<EmbeddingTable*>& tables,
                          const std::vector<int64_t>& versions);

 private:
  const EmbeddingTable* table_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_TABLE_SNAPSHOT_H_
