#include "ops/core/operations/import_rows.h"

#include <cstring>
#include <string>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/ids/id_partition.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/operations/row_writer.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerPart = 100000;

// Records on their way into a table.
struct Import {
  const float* records;
  int64_t width;
  const uint32_t* ages;  // or null
};

// Writes those of one part; the last one of a repeated key is written last.
Status WritePart(const Import& import, const IdPartition& partition, int64_t part,
                 const TableState& state, RowWriter* writer) {
  const RecordLayout& layout = state.layout();
  const bool has_steps = import.width > layout.record_floats();
  const uint32_t num_steps = state.rule_state.num_steps();
  const int64_t* ids = partition.ids(part);
  const uint32_t* positions = partition.positions(part);
  for (int64_t i = 0; i < partition.num_ids(part); ++i) {
    float* record = nullptr;
    bool created = false;
    KERAS_SPARSE_RETURN_IF_ERROR(writer->Locate(ids + i, 1, &record, &created));
    writer->Prepare(ids + i, 1, &record, &created);
    const int64_t position = positions == nullptr ? i : positions[i];
    // By memcpy: steps are no floats.
    std::memcpy(record, import.records + position * import.width,
                static_cast<size_t>(4 * import.width));
    if (has_steps) continue;
    const uint32_t age = import.ages == nullptr ? 0 : import.ages[position];
    layout.SetGradientStep(record, num_steps - age);
  }
  return Status::Ok();
}

Status WriteParts(const Import& import, const IdPartition& partition, const FetchedRecords& fetched,
                  TableState* state, Executor* executor) {
  Mutex mutex;
  Status status;
  executor->ParallelFor(
      partition.num_parts(), kNanosecondsPerPart, [&](int64_t begin, int64_t end) {
        RowWriter writer(state, fetched);
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

}  // namespace

Status ImportRows(EmbeddingTable* table, const int64_t* keys, int64_t n, const float* records,
                  int64_t width, Executor* executor, const uint32_t* ages) {
  if (n >= (int64_t{1} << 32)) {
    return InvalidArgument(
        "an op takes fewer than 2^32 keys a table. Received: " + std::to_string(n) + " keys");
  }
  const WriteLocks locks({table});
  TableState& state = locks[0];
  KERAS_SPARSE_RETURN_IF_ERROR(state.CheckRecords(records, n, width));
  KERAS_SPARSE_RETURN_IF_ERROR(state.CheckKeys(keys, n));
  KERAS_SPARSE_RETURN_IF_ERROR(state.BeginChange(executor));
  // Whole records need nothing of those they replace, which might not even be readable.
  const bool replaces = width != table->dim() || width == state.layout().record_floats();
  std::vector<FetchedRecords> fetched(1);
  if (!replaces) {
    KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::Fetch({{&state, keys, n}}, executor, &fetched));
  }
  ++state.version;
  state.tiers.BeginUpdate();
  const std::vector<IdPartition> partitions =
      PartitionIds({{keys, n, state.max_partition_bits()}}, executor);
  KERAS_SPARSE_RETURN_IF_ERROR(
      WriteParts({records, width, ages}, partitions[0], fetched[0], &state, executor));
  KERAS_SPARSE_RETURN_IF_ERROR(replaces ? state.tiers.EraseBelow(keys, n)
                                        : fetched[0].EraseBelow(&state.tiers));
  state.FinishChange(executor);
  return Status::Ok();
}

}  // namespace keras_sparse
