#include "ops/core/operations/export_rows.h"

#include <algorithm>
#include <vector>

#include "ops/core/table/table_cursor.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

void ExportFirstTier(const TableState& state, int64_t cursor, int64_t max_rows,
                     ExportedRows* rows) {
  std::vector<int64_t> keys;
  std::vector<const float*> records;
  const int64_t next = state.tiers.first_tier().Walk(PositionOf(cursor), max_rows, &keys, &records);
  rows->records.reserve(1 + keys.size() * static_cast<size_t>(rows->record_floats));
  for (size_t i = 0; i < keys.size(); ++i) rows->Append(keys[i], records[i], state.rule_state);
  if (next >= 0) {
    rows->next_cursor = MakeCursor(state.version, 0, next);
  } else if (!state.tiers.lower_tiers().empty()) {
    rows->next_cursor = MakeCursor(state.version, 1, 0);
  }
}

Status ExportLowerTier(const TableState& state, int64_t cursor, int64_t max_rows,
                       ExportedRows* rows) {
  const RowStores& stores = state.tiers.lower_tiers();
  const int64_t tier = TierOf(cursor);
  const auto store = static_cast<size_t>(tier - 1);
  std::vector<int64_t> keys;
  std::vector<char> records;
  int64_t next = -1;
  KERAS_SPARSE_RETURN_IF_ERROR(stores[store]->Walk(
      PositionOf(cursor), std::max<int64_t>(1, max_rows), &keys, &records, &next));
  // What an erase that failed has left below is not the row.
  const std::vector<bool> above = state.tiers.AreAbove(store, keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (above[i]) continue;
    const char* record = records.data() + static_cast<int64_t>(i) * state.layout().record_bytes();
    rows->Append(keys[i], reinterpret_cast<const float*>(record), state.rule_state);
  }
  if (next >= 0) {
    rows->next_cursor = MakeCursor(state.version, tier, next);
  } else if (store + 1 < stores.size()) {
    rows->next_cursor = MakeCursor(state.version, tier + 1, 0);
  }
  return Status::Ok();
}

}  // namespace

Status ExportRows(const EmbeddingTable& table, int64_t cursor, int64_t max_rows,
                  ExportedRows* rows) {
  const ReadLocks locks({&table});
  const TableState& state = locks[0];
  *rows = ExportedRows();
  rows->record_floats = state.layout().record_floats();
  if (cursor == -1) return Status::Ok();
  KERAS_SPARSE_RETURN_IF_ERROR(state.CheckCursor(cursor));
  if (TierOf(cursor) > static_cast<int64_t>(state.tiers.lower_tiers().size())) {
    return BadCursor(cursor);
  }
  if (cursor == 0) cursor = state.FirstCursor();
  if (TierOf(cursor) > 0) return ExportLowerTier(state, cursor, max_rows, rows);
  ExportFirstTier(state, cursor, max_rows, rows);
  return Status::Ok();
}

}  // namespace keras_sparse
