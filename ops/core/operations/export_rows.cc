// EmbeddingTable::Export: the walk over all rows of a table, and that over its filter.
#include <algorithm>
#include <shared_mutex>

#include "ops/core/table/embedding_table.h"
#include "ops/core/table/table_cursor.h"

namespace keras_sparse {

void EmbeddingTable::AppendExported(int64_t key, const float* record, ExportedRows* rows) const {
  const RecordLayout& layout = state_.layout();
  rows->keys.push_back(key);
  const size_t begin = rows->records.size();
  // With the words of steps, which go once the copy has been caught up.
  rows->records.insert(rows->records.end(), record, record + layout.record_bytes() / 4);
  if (layout.keeps_gradient_step()) rows->ages.push_back(state_.rule_state.AgeOf(record));
  if (state_.rule().defers_moves()) state_.rule().CatchUp(rows->records.data() + begin);
  rows->records.resize(begin + static_cast<size_t>(layout.record_floats()));
}

Status EmbeddingTable::ExportFilter(int64_t cursor, int64_t max_entries,
                                    FilterEntries* entries) const {
  std::shared_lock<TableMutex> lock(mutex_);
  *entries = FilterEntries();
  if (cursor == -1 || state_.gate.filter() == nullptr) return Status::Ok();
  KERAS_SPARSE_RETURN_IF_ERROR(state_.CheckCursor(cursor));
  state_.gate.filter()->Walk(cursor & ((int64_t{1} << kCursorVersionShift) - 1), max_entries,
                             entries);
  if (entries->next_cursor >= 0) {
    entries->next_cursor = MakeCursor(state_.version, 0, entries->next_cursor);
  }
  return Status::Ok();
}

Status EmbeddingTable::Export(int64_t cursor, int64_t max_rows, ExportedRows* rows) const {
  std::shared_lock<TableMutex> lock(mutex_);
  *rows = ExportedRows();
  rows->record_floats = state_.layout().record_floats();
  if (cursor == -1) return Status::Ok();
  KERAS_SPARSE_RETURN_IF_ERROR(state_.CheckCursor(cursor));
  const int64_t tier = TierOf(cursor);
  const int64_t position = PositionOf(cursor);
  if (tier > static_cast<int64_t>(state_.tiers.lower_tiers().size())) return BadCursor(cursor);
  if (tier > 0) return ExportLowerTiers(cursor, max_rows, rows);
  std::vector<int64_t> keys;
  std::vector<const float*> records;
  const int64_t next = state_.tiers.first_tier().Walk(position, max_rows, &keys, &records);
  rows->records.reserve(1 + keys.size() * static_cast<size_t>(state_.layout().record_floats()));
  for (size_t i = 0; i < keys.size(); ++i) AppendExported(keys[i], records[i], rows);
  if (next >= 0) {
    rows->next_cursor = MakeCursor(state_.version, 0, next);
  } else if (!state_.tiers.lower_tiers().empty()) {
    rows->next_cursor = MakeCursor(state_.version, 1, 0);
  }
  return Status::Ok();
}

Status EmbeddingTable::ExportLowerTiers(int64_t cursor, int64_t max_rows,
                                        ExportedRows* rows) const {
  const int64_t tier = TierOf(cursor);
  const int64_t position = PositionOf(cursor);
  std::vector<int64_t> keys;
  std::vector<char> records;
  int64_t next = -1;
  const auto store = static_cast<size_t>(tier - 1);
  KERAS_SPARSE_RETURN_IF_ERROR(state_.tiers.lower_tiers()[store]->Walk(
      position, std::max<int64_t>(1, max_rows), &keys, &records, &next));
  for (size_t i = 0; i < keys.size(); ++i) {
    // What an erase that failed has left below is not the row.
    if (state_.tiers.IsInFirstTier(keys[i])) continue;
    const char* record = records.data() + static_cast<int64_t>(i) * state_.layout().record_bytes();
    AppendExported(keys[i], reinterpret_cast<const float*>(record), rows);
  }
  if (next >= 0) {
    rows->next_cursor = MakeCursor(state_.version, tier, next);
  } else if (store + 1 < state_.tiers.lower_tiers().size()) {
    rows->next_cursor = MakeCursor(state_.version, tier + 1, 0);
  }
  return Status::Ok();
}

}  // namespace keras_sparse
