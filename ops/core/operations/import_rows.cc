#include "ops/core/operations/import_rows.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/ids/id_partition.h"
#include "ops/core/operations/evict_rows.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/operations/row_writer.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerImport = 100000;

// Records to write into a table.
struct Import {
  const float* records;  // null: rows keep their values
  int64_t width;
  const uint32_t* ages = nullptr;         // may be null
  const uint32_t* frequencies = nullptr;  // may be null
};

// Writes the records of one part in order, so that the last one of a repeated key stays.
Status WritePart(const Import& import, const IdPartition& partition, int64_t part,
                 const TableState& state, RowWriter* writer) {
  const RecordLayout& layout = state.layout();
  const RecordLayout& float_layout = state.rule().float_layout();
  const bool has_steps = import.width > float_layout.record_floats();
  const int64_t* ids = partition.ids(part);
  const uint32_t* positions = partition.positions(part);
  std::vector<float> floats(
      static_cast<size_t>(layout.is_packed() ? float_layout.record_words() : 0));
  for (int64_t i = 0; i < partition.num_ids(part); ++i) {
    float* record = nullptr;
    bool created = false;
    KERAS_SPARSE_RETURN_IF_ERROR(writer->Locate(ids + i, 1, &record, &created));
    writer->Prepare(ids + i, 1, &record, &created);
    if (import.records == nullptr) continue;
    const int64_t position = positions == nullptr ? i : positions[i];
    float* changed = record;
    if (layout.is_packed()) {
      changed = floats.data();
      UnpackRecord(layout, record, changed);
      if (state.rule().defers_moves()) state.rule().CatchUp(changed);
    }
    // memcpy, because step words are not floats.
    std::memcpy(changed, import.records + position * import.width,
                static_cast<size_t>(RecordLayout::kWordBytes * import.width));
    if (layout.is_packed()) PackRecord(layout, changed, Rounding(), ids[i], record);
    if (has_steps) continue;
    const uint32_t age = import.ages == nullptr ? 0 : import.ages[position];
    layout.SetGradientStep(record, state.rule_state.MarkOf(age));
    if (import.frequencies != nullptr) layout.SetFrequency(record, import.frequencies[position]);
  }
  return Status::Ok();
}

Status WriteParts(const Import& import, const IdPartition& partition, const FetchedRecords& fetched,
                  TableState* state, Executor* executor) {
  Mutex mutex;
  Status status;
  executor->ParallelFor(
      partition.num_parts(), kNanosecondsPerImport, [&](int64_t begin, int64_t end) {
        // Rows that are only promoted keep their bits: applying missed steps in two parts rounds
        // differently.
        RowWriter writer(state, fetched, import.width > 0);
        for (int64_t part = begin; part < end; ++part) {
          const Status written = WritePart(import, partition, part, *state, &writer);
          if (written.ok()) continue;
          const MutexLock lock(mutex);
          status = written;
          return;
        }
      });
  return status;
}

// Writes records after CheckKeys and CheckRecords have passed and the change has begun. Erases them
// from the tiers below; a row in a GPU's memory is written in place.
//   fetched  records of these keys in lower tiers, or null where whole records replace them
Status WriteFetched(const Import& import, const int64_t* keys, int64_t n,
                    const FetchedRecords* fetched, TableState* state, Executor* executor) {
  ++state->version;
  state->tiers.BeginUpdate();
  const std::vector<IdPartition> partitions =
      PartitionIds({{keys, n, state->max_partition_bits()}}, executor);
  const FetchedRecords none;
  Status status =
      WriteParts(import, partitions[0], fetched == nullptr ? none : *fetched, state, executor);
  if (status.ok()) {
    status =
        fetched == nullptr ? state->tiers.EraseCold(keys, n) : fetched->EraseCold(&state->tiers);
  }
  state->FinishChange(executor);
  return status;
}

Status Write(const Import& import, const int64_t* keys, int64_t n, TableState* state,
             Executor* executor) {
  // Whole records replace the old ones without reading them, so that unreadable rows can be
  // replaced.
  const RecordLayout& layout = state->rule().float_layout();
  const bool is_whole = import.width == layout.record_words();
  const bool has_slots =
      import.width != state->options.output_dim || import.width == layout.record_floats();
  const bool has_frequency = is_whole || !layout.keeps_frequency() || import.frequencies != nullptr;
  if (has_slots && has_frequency) {
    return WriteFetched(import, keys, n, nullptr, state, executor);
  }
  std::vector<FetchedRecords> fetched(1);
  KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::Fetch({{state, keys, n}}, executor, &fetched));
  return WriteFetched(import, keys, n, &fetched[0], state, executor);
}

Status CheckNumber(int64_t n) {
  if (n < (int64_t{1} << 32)) return Status::Ok();
  return InvalidArgument(
      "an op takes fewer than 2^32 keys a table. Received: " + std::to_string(n) + " keys");
}

// Also checks against the table's current history.
Status CheckRecords(const std::vector<SavedChange>& changes, const TableState& state) {
  for (const SavedChange& change : changes) {
    KERAS_SPARSE_RETURN_IF_ERROR(state.CheckRecords(change.records, change.n, change.width));
  }
  return Status::Ok();
}

// Returns the keys, in order, that the first tier has or that were fetched.
std::vector<int64_t> WithARow(const int64_t* keys, int64_t n, const TableState& state,
                              const FetchedRecords& fetched) {
  std::vector<int64_t> missing;
  FetchedRecords::AppendMissing(state.tiers.first_tier(), keys, n, &missing);
  std::vector<int64_t> found;
  size_t next = 0;
  for (int64_t i = 0; i < n; ++i) {
    const bool is_missing = next < missing.size() && missing[next] == keys[i];
    if (is_missing) ++next;
    if (!is_missing || fetched.Find(keys[i]) != nullptr) found.push_back(keys[i]);
  }
  return found;
}

Status PromoteInMemory(const int64_t* keys, int64_t n, TableState* state, Executor* executor,
                       int64_t* num_promoted) {
  std::vector<FetchedRecords> fetched(1);
  KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::Fetch({{state, keys, n}}, executor, &fetched));
  if (fetched[0].empty()) return Status::Ok();
  // Rows that are already in the first tier are used too; otherwise the others would demote them.
  const std::vector<int64_t> found = WithARow(keys, n, *state, fetched[0]);
  *num_promoted = static_cast<int64_t>(fetched[0].keys().size());
  return WriteFetched({nullptr, 0}, found.data(), static_cast<int64_t>(found.size()), &fetched[0],
                      state, executor);
}

// Promotes rows as an update of a table in a GPU's memory does.
Status PromoteOnGpu(const int64_t* keys, int64_t n, HbmStore* gpu, TableState* state,
                    Executor* executor, int64_t* num_promoted) {
  if (!state->tiers.HasLowerTierReads()) return Status::Ok();
  const auto are_there = std::make_unique<bool[]>(static_cast<size_t>(n));
  gpu->Contains(keys, n, are_there.get());
  std::vector<int64_t> missing;
  for (int64_t i = 0; i < n; ++i) {
    if (!are_there[static_cast<size_t>(i)]) missing.push_back(keys[i]);
  }
  missing = FetchedRecords::Distinct({missing});
  FetchedRecords fetched;
  KERAS_SPARSE_RETURN_IF_ERROR(fetched.FetchCold(state->tiers, missing));
  if (fetched.empty()) return Status::Ok();
  std::vector<int64_t> found;
  std::vector<char> records;
  for (const int64_t key : missing) {
    const auto* record = reinterpret_cast<const char*>(fetched.Find(key));
    if (record == nullptr) continue;
    found.push_back(key);
    records.insert(records.end(), record, record + gpu->record_bytes());
  }
  ++state->version;
  state->tiers.BeginUpdate();
  const auto num_found = static_cast<int64_t>(found.size());
  // Rows that are already on the GPU are used too.
  KERAS_SPARSE_RETURN_IF_ERROR(gpu->NoteUsesOf(keys, n));
  KERAS_SPARSE_RETURN_IF_ERROR(gpu->Put(found.data(), num_found, records.data()));
  const Status status = fetched.EraseCold(&state->tiers);
  state->FinishChange(executor);
  *num_promoted = num_found;
  return status;
}

}  // namespace

Status ImportRows(EmbeddingTable* table, const int64_t* keys, int64_t n, const float* records,
                  int64_t width, Executor* executor, const uint32_t* ages,
                  const uint32_t* frequencies) {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckNumber(n));
  const WriteLocks locks({table});
  TableState& state = locks[0];
  KERAS_SPARSE_RETURN_IF_ERROR(state.CheckRecords(records, n, width));
  KERAS_SPARSE_RETURN_IF_ERROR(state.CheckKeys(keys, n));
  KERAS_SPARSE_RETURN_IF_ERROR(state.BeginChange(executor));
  state.rule_state.RefreshClock();
  return Write({records, width, ages, frequencies}, keys, n, &state, executor);
}

Status ApplyChanges(EmbeddingTable* table, const RuleHistory& history,
                    const std::vector<SavedChange>& changes, Executor* executor) {
  for (const SavedChange& change : changes) {
    KERAS_SPARSE_RETURN_IF_ERROR(CheckNumber(change.n));
    if (change.num_erased > 0) KERAS_SPARSE_RETURN_IF_ERROR(CheckErasable(table->options()));
  }
  const WriteLocks locks({table});
  TableState& state = locks[0];
  for (const SavedChange& change : changes) {
    KERAS_SPARSE_RETURN_IF_ERROR(state.CheckKeys(change.keys, change.n));
  }
  const RuleHistory before = state.rule_state.history();
  const bool has_forgotten = state.rule().defers_moves() && history.first_step > before.first_step;
  if (has_forgotten || history.step < before.step) {
    return InvalidArgument("a history must reach back as far as that of table '" + table->name() +
                           "', from step " + std::to_string(before.first_step) + " to " +
                           std::to_string(before.step) + ", and go on. Received: from step " +
                           std::to_string(history.first_step) + " to " +
                           std::to_string(history.step));
  }
  // Once for all changes; work left for lack of room waits for the next change.
  KERAS_SPARSE_RETURN_IF_ERROR(state.BeginChange(executor));
  KERAS_SPARSE_RETURN_IF_ERROR(state.rule_state.Restore(history));
  if (const Status fits = CheckRecords(changes, state); !fits.ok()) {
    KERAS_SPARSE_RETURN_IF_ERROR(state.rule_state.Restore(before));
    state.rule_state.RestartClock(before.table_step);
    return fits;
  }
  ++state.version;  // rows outside the changes have moved too
  for (const SavedChange& change : changes) {
    const std::vector<int64_t> erased(change.erased, change.erased + change.num_erased);
    KERAS_SPARSE_RETURN_IF_ERROR(EraseFrom(erased, &state, executor));
    KERAS_SPARSE_RETURN_IF_ERROR(
        Write({change.records, change.width}, change.keys, change.n, &state, executor));
  }
  return Status::Ok();
}

Status PromoteRows(EmbeddingTable* table, const int64_t* keys, int64_t n, Executor* executor,
                   Promotion* promotion) {
  *promotion = Promotion();
  KERAS_SPARSE_RETURN_IF_ERROR(CheckNumber(n));
  const WriteLocks locks({table});
  TableState& state = locks[0];
  KERAS_SPARSE_RETURN_IF_ERROR(state.CheckKeys(keys, n));
  promotion->version_before = state.snapshot_version();
  KERAS_SPARSE_RETURN_IF_ERROR(state.BeginChange(executor));
  HbmStore* gpu = state.tiers.hbm_store();
  KERAS_SPARSE_RETURN_IF_ERROR(
      gpu == nullptr ? PromoteInMemory(keys, n, &state, executor, &promotion->num_rows)
                     : PromoteOnGpu(keys, n, gpu, &state, executor, &promotion->num_rows));
  promotion->version = state.snapshot_version();
  return Status::Ok();
}

}  // namespace keras_sparse
