// EmbeddingTable: rows that come in from outside, and the state before they do.
#include <cstring>
#include <mutex>
#include <vector>

#include "ops/core/ids/id_partition.h"
#include "ops/core/operations/row_access.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerPart = 100000;

}  // namespace

Status EmbeddingTable::Import(const int64_t* keys, int64_t n, const float* records, int64_t width,
                              Executor* executor, const uint32_t* ages) {
  if (n >= (int64_t{1} << 32)) {
    return InvalidArgument(
        "an op takes fewer than 2^32 keys a table. Received: " + std::to_string(n) + " keys");
  }
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  const RecordLayout& layout = state_.layout();
  KERAS_SPARSE_RETURN_IF_ERROR(state_.CheckRecords(records, n, width));
  KERAS_SPARSE_RETURN_IF_ERROR(state_.CheckKeys(keys, n));
  KERAS_SPARSE_RETURN_IF_ERROR(state_.BeginChange(executor));
  // Whole records need nothing of those they replace, which might not even be readable.
  const bool replaces = width != dim() || width == layout.record_floats();
  const bool has_steps = width > layout.record_floats();
  std::vector<FetchedRecords> fetched(1);
  if (!replaces) {
    KERAS_SPARSE_RETURN_IF_ERROR(FetchedRecords::Fetch({{this, keys, n}}, executor, &fetched));
  }
  ++state_.version;
  state_.tiers.first_tier().BeginUpdate();
  const std::vector<IdPartition> partitions =
      PartitionIds({{keys, n, state_.max_partition_bits()}}, executor);
  const IdPartition& partition = partitions[0];
  std::mutex mutex;
  Status status;
  executor->ParallelFor(
      partition.num_parts(), kNanosecondsPerPart, [&](int64_t begin, int64_t end) {
        RowWriter writer(this, fetched[0]);
        for (int64_t part = begin; part < end; ++part) {
          const int64_t* ids = partition.ids(part);
          const uint32_t* positions = partition.positions(part);
          for (int64_t i = 0; i < partition.num_ids(part); ++i) {
            float* record = nullptr;
            bool created = false;
            const Status located = writer.Locate(ids + i, 1, &record, &created);
            if (!located.ok()) {
              std::lock_guard<std::mutex> lock(mutex);
              status = located;
              return;
            }
            writer.Prepare(ids + i, 1, &record, &created);
            const int64_t position = positions == nullptr ? i : positions[i];
            // By memcpy: steps are no floats.
            std::memcpy(record, records + position * width, static_cast<size_t>(4 * width));
            if (has_steps) continue;
            const uint32_t age = ages == nullptr ? 0 : ages[position];
            layout.SetGradientStep(record, state_.rule_state.num_steps() - age);
          }
        }
      });
  KERAS_SPARSE_RETURN_IF_ERROR(status);
  KERAS_SPARSE_RETURN_IF_ERROR(replaces ? state_.tiers.EraseBelow(keys, n)
                                        : fetched[0].EraseBelow(this));
  state_.FinishChange(executor);
  return Status::Ok();
}

Status EmbeddingTable::Clear(Executor* executor) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  return ClearRows(executor);
}

Status EmbeddingTable::Restore(const RuleHistory& history, Executor* executor) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  KERAS_SPARSE_RETURN_IF_ERROR(state_.rule_state.Restore(history));
  return ClearRows(executor);
}

Status EmbeddingTable::ClearRows(Executor* executor) {
  ++state_.version;
  state_.gate.Clear();
  return state_.tiers.Clear(state_.gate.initializer(), state_.rule().step(), executor);
}

}  // namespace keras_sparse
