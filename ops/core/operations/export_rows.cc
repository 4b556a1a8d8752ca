#include "ops/core/operations/export_rows.h"

#include <algorithm>
#include <array>

#include "ops/core/math/prefetch.h"
#include "ops/core/operations/check_ids.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/table/table_cursor.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerExportedKey = 100;

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
  // A copy left below by a failed erase is not the row.
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

// Reads the row and slots of a key; the record is null for a key without a row.
class KeyReader {
 public:
  explicit KeyReader(const TableState& state)
      : state_(state), copy_(static_cast<size_t>(state.rule().float_layout().record_words())) {}

  //   to  (record_floats)
  void Read(int64_t key, const float* record, float* to) {
    const RecordLayout& layout = state_.rule().float_layout();
    float* copy = copy_.data();  // including the step words
    if (record != nullptr) {
      state_.rule_state.ReadFloats(record, copy);
    } else if (state_.options.owned_keys().Hold(key)) {
      state_.gate.default_rows().Fill(key, layout.dim(), copy);
      layout.InitializeSlots(copy, state_.rule().step());
      RoundRecord(state_.layout(), copy);
    } else {
      std::fill(copy_.begin(), copy_.end(), 0.0f);
    }
    std::copy_n(copy, layout.record_floats(), to);
  }

 private:
  const TableState& state_;
  std::vector<float> copy_;
};

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
  if (cursor == 0) {
    cursor = state.FirstCursor();
    // Once for all chunks, so that ages refer to one moment, unless another call refreshes the
    // clock.
    state.rule_state.RefreshClock();
  }
  if (TierOf(cursor) > 0) return ExportLowerTier(state, cursor, max_rows, rows);
  ExportFirstTier(state, cursor, max_rows, rows);
  return Status::Ok();
}

Status ReadRows(const EmbeddingTable& table, const int64_t* keys, int64_t n, Executor* executor,
                RowsOfKeys* rows) {
  const ReadLocks locks({&table});
  const TableState& state = locks[0];
  const std::vector<TableIds> lists = {{&state, keys, n}};
  KERAS_SPARSE_RETURN_IF_ERROR(CheckIds(lists, executor));
  std::vector<FetchedRecords> fetched;
  KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::Fetch(lists, executor, &fetched));
  const FetchedRecords& below = fetched[0];
  const int64_t width = rows->record_floats = state.layout().record_floats();
  rows->exist.resize(static_cast<size_t>(n));
  rows->records.resize(static_cast<size_t>(n * width));
  executor->ParallelFor(n, kNanosecondsPerExportedKey, [&](int64_t begin, int64_t end) {
    KeyReader reader(state);
    std::array<float*, kBlockRows> records;
    for (; begin < end; begin += kBlockRows) {
      const int64_t size = std::min(kBlockRows, end - begin);
      state.tiers.first_tier().Find(keys + begin, size, records.data());
      for (int64_t i = begin; i < begin + size; ++i) {
        const float* record = records[static_cast<size_t>(i - begin)];
        if (record == nullptr && !below.empty()) record = below.Find(keys[i]);
        rows->exist[static_cast<size_t>(i)] = record != nullptr ? 1 : 0;
        reader.Read(keys[i], record, rows->records.data() + i * width);
      }
    }
  });
  return Status::Ok();
}

Status HaveRows(const EmbeddingTable& table, const std::vector<int64_t>& keys,
                std::vector<bool>* exist) {
  const ReadLocks locks({&table});
  const TierStack& tiers = locks[0].tiers;
  *exist = tiers.AreAbove(tiers.lower_tiers().size(), keys);
  // A GPU that fails has reported that no key exists.
  const Device* gpu = table.options().storage.device.get();
  return gpu == nullptr ? Status::Ok() : gpu->CheckWorks();
}

}  // namespace keras_sparse
