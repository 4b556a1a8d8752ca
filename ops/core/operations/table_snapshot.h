// What a checkpoint takes from a table, and what a later one needs to take less.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_TABLE_SNAPSHOT_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_TABLE_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Which rows of a table.
struct RawSelection {
  bool only_changed = false;  // since the last MarkSaved
  // That are in no file of LinkFiles, which has succeeded just before. Of the rows that have
  // changed too, those of a store that links some of its rows only come all the same.
  bool only_unlinked = false;
};

// Records as they lie in the tiers: with their step words, and moves that are pending.
struct RawRows {
  int64_t record_bytes = 0;
  std::vector<int64_t> keys;  // (n)
  std::vector<char> records;  // (n, record_bytes)
  int64_t next_cursor = -1;
};

// The state that a table is in, for as long as its version stays the same. Everything that is read
// of it belongs together if the version before the first call is still that after the last one,
// which MarkSaved makes sure of.
//
// Thread safety: every method may be called from any thread.
class TableSnapshot {
 public:
  explicit TableSnapshot(const EmbeddingTable* table) : table_(table) {}

  // Moves on with what may have changed a row, and with MarkSaved.
  int64_t version() const;
  // Whether every row counts as changed.
  bool is_everything_changed() const;

  // Cursors are as in ExportRows.
  Status Export(const RawSelection& selection, int64_t cursor, int64_t max_rows,
                RawRows* rows) const;
  // The keys whose rows have gone since the last MarkSaved, and that have none again.
  std::vector<int64_t> ErasedKeys() const;

  // Links the files of the lower tiers: see RowStore::LinkFiles. After an error some may be there.
  Status LinkFiles(const std::string& path_prefix, std::vector<LinkedFile>* files) const;

  // Says that all tables have been saved: from now on changes count from here.
  // FailedPrecondition if one of them is no more at its version; then nothing is done.
  static Status MarkSaved(const std::vector<EmbeddingTable*>& tables,
                          const std::vector<int64_t>& versions);

 private:
  const EmbeddingTable* table_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_TABLE_SNAPSHOT_H_
