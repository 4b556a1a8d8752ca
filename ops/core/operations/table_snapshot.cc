#include "ops/core/operations/table_snapshot.h"

#include <algorithm>
#include <memory>

#include "ops/core/table/table_cursor.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

void Append(int64_t key, const char* record, RawRows* rows) {
  rows->keys.push_back(key);
  rows->records.insert(rows->records.end(), record, record + rows->record_bytes);
}

// Appends changed rows that were demoted to a tier and are still there.
//   tier  its position among the lower tiers
Status AppendDemoted(const TableState& state, size_t tier, int64_t position, int64_t max_rows,
                     RawRows* rows, int64_t* next) {
  const RowStore& store = *state.tiers.lower_tiers()[tier];
  std::vector<int64_t> walked;
  *next = state.tiers.change_log().AppendDemoted(position, max_rows, &walked);
  // Rows that were promoted again need not be read.
  const std::vector<bool> above = state.tiers.AreAbove(tier, walked);
  std::vector<int64_t> keys;
  for (size_t i = 0; i < walked.size(); ++i) {
    if (!above[i]) keys.push_back(walked[i]);
  }
  const auto n = static_cast<int64_t>(keys.size());
  std::vector<char> records(keys.size() * static_cast<size_t>(rows->record_bytes));
  const auto found = std::make_unique<bool[]>(keys.size());
  KERAS_SPARSE_RETURN_IF_ERROR(store.Get(keys.data(), n, records.data(), found.get()));
  for (int64_t i = 0; i < n; ++i) {
    if (found[i]) {
      Append(keys[static_cast<size_t>(i)], records.data() + i * rows->record_bytes, rows);
    }
  }
  return Status::Ok();
}

Status ExportBelow(const TableState& state, const RawSelection& selection, int64_t cursor,
                   int64_t max_rows, RawRows* rows) {
  const auto tier = static_cast<size_t>(TierOf(cursor) - 1);
  const auto& stores = state.tiers.lower_tiers();
  if (tier >= stores.size()) return BadCursor(cursor);
  const RowStore& store = *stores[tier];
  max_rows = std::max<int64_t>(1, max_rows);
  const HbmStore* gpu = tier == 0 ? state.tiers.hbm_store() : nullptr;
  int64_t next = -1;
  if (selection.only_unlinked && store.links_all()) {
    // All rows are linked.
  } else if (selection.only_changed && gpu == nullptr) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        AppendDemoted(state, tier, PositionOf(cursor), max_rows, rows, &next));
  } else {
    std::vector<int64_t> keys;
    std::vector<char> records;
    const auto walk = selection.only_unlinked ? &RowStore::WalkUnlinked : &RowStore::Walk;
    const int64_t position = PositionOf(cursor);
    KERAS_SPARSE_RETURN_IF_ERROR(selection.only_changed
                                     ? gpu->WalkChanged(position, max_rows, &keys, &records, &next)
                                     : (store.*walk)(position, max_rows, &keys, &records, &next));
    // A copy left below by a failed erase is not the row.
    const std::vector<bool> above = state.tiers.AreAbove(tier, keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (above[i]) continue;
      Append(keys[i], records.data() + static_cast<int64_t>(i) * rows->record_bytes, rows);
    }
  }
  if (next >= 0) {
    rows->next_cursor = MakeCursor(state.version, TierOf(cursor), next);
  } else if (tier + 1 < stores.size()) {
    rows->next_cursor = MakeCursor(state.version, TierOf(cursor) + 1, 0);
  }
  return Status::Ok();
}

}  // namespace

int64_t TableSnapshot::version() const {
  const ReadLocks locks({table_});
  return locks[0].snapshot_version();
}

bool TableSnapshot::is_everything_changed() const {
  const ReadLocks locks({table_});
  return locks[0].tiers.change_log().is_everything();
}

Status TableSnapshot::Export(const RawSelection& selection, int64_t cursor, int64_t max_rows,
                             RawRows* rows) const {
  const ReadLocks locks({table_});
  const TableState& state = locks[0];
  *rows = RawRows();
  rows->record_bytes = state.layout().record_bytes();
  if (cursor == -1) return Status::Ok();
  KERAS_SPARSE_RETURN_IF_ERROR(state.CheckCursor(cursor));
  if (selection.only_changed && state.tiers.change_log().is_everything()) {
    return FailedPrecondition("table '" + state.options.name +
                              "' must have been saved before its changes can be told");
  }
  if (cursor == 0) cursor = state.FirstCursor();
  if (TierOf(cursor) > 0) return ExportBelow(state, selection, cursor, max_rows, rows);
  const FirstTier& tier = state.tiers.first_tier();
  std::vector<int64_t> keys;
  std::vector<const float*> records;
  const int64_t next = selection.only_changed
                           ? tier.WalkChanged(PositionOf(cursor), max_rows, &keys, &records)
                           : tier.Walk(PositionOf(cursor), max_rows, &keys, &records);
  rows->records.reserve(keys.size() * static_cast<size_t>(rows->record_bytes));
  for (size_t i = 0; i < keys.size(); ++i) {
    Append(keys[i], reinterpret_cast<const char*>(records[i]), rows);
  }
  const bool has_more = next >= 0 || !state.tiers.lower_tiers().empty();
  if (has_more) {
    rows->next_cursor = MakeCursor(state.version, next >= 0 ? 0 : 1, std::max<int64_t>(next, 0));
  }
  return Status::Ok();
}

std::vector<int64_t> TableSnapshot::ErasedKeys() const {
  const ReadLocks locks({table_});
  const TableState& state = locks[0];
  std::vector<int64_t> keys;
  (void)state.tiers.change_log().AppendErased(0, INT64_MAX, &keys);
  const std::vector<bool> has_row = state.tiers.AreAbove(state.tiers.lower_tiers().size(), keys);
  size_t num_gone = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!has_row[i]) keys[num_gone++] = keys[i];
  }
  keys.resize(num_gone);
  return keys;
}

Status TableSnapshot::LinkFiles(const std::string& path_prefix,
                                std::vector<LinkedFile>* files) const {
  const ReadLocks locks({table_});
  const TableState& state = locks[0];
  for (const auto& store : state.tiers.lower_tiers()) {
    KERAS_SPARSE_RETURN_IF_ERROR(store->LinkFiles(path_prefix, files));
  }
  return Status::Ok();
}

Status TableSnapshot::MarkSaved(const std::vector<EmbeddingTable*>& tables,
                                const std::vector<int64_t>& versions) {
  const WriteLocks locks(tables);
  for (size_t i = 0; i < tables.size(); ++i) {
    if (locks[i].snapshot_version() == versions[i]) continue;
    return FailedPrecondition("table '" + tables[i]->name() +
                              "' must not change while it is saved, nor be saved twice at a time; "
                              "save again");
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    locks[i].tiers.TrackChanges();
    ++locks[i].num_saves;
  }
  return Status::Ok();
}

}  // namespace keras_sparse
