// EmbeddingTable: rows that come in from outside, and the state before they do.
#include <cstring>
#include <mutex>
#include <vector>

#include "ops/core/ids/id_partition.h"
#include "ops/core/operations/row_access.h"
#include "ops/core/optimizer/saved_rule.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerPart = 100000;

}  // namespace

Status EmbeddingTable::CheckKeys(const int64_t* keys, int64_t n) const {
  for (int64_t i = 0; i < n; ++i) {
    if (state_.tiers.first_tier().Accepts(keys[i])) continue;
    return InvalidArgument("key must be in [0, " + std::to_string(input_dim()) + ") for table '" +
                           name() + "'. Received: keys[" + std::to_string(i) +
                           "] = " + std::to_string(keys[i]));
  }
  return Status::Ok();
}

Status EmbeddingTable::CheckRecords(const float* records, int64_t n, int64_t width) const {
  const RecordLayout& layout = state_.rule->layout();
  const int64_t words = layout.record_bytes() / 4;
  if (width == dim() || width == layout.record_floats()) return Status::Ok();
  if (width != words) {
    const bool has_steps = words > layout.record_floats();
    return InvalidArgument(
        "`records` of table '" + name() + "' must be " + std::to_string(dim()) +
        " wide (rows) or " + std::to_string(layout.record_floats()) + " (rows and slots of rule '" +
        state_.rule->name() + "')" +
        (has_steps ? " or " + std::to_string(words) + " (their steps too)" : "") +
        ". Received: " + std::to_string(width));
  }
  for (int64_t i = 0; i < n; ++i) {
    const float* record = records + i * width;
    if (!state_.rule->RemembersLastStep(record)) return state_.rule->ForgottenStep(record, i);
  }
  return Status::Ok();
}

Status EmbeddingTable::Import(const int64_t* keys, int64_t n, const float* records, int64_t width,
                              Executor* executor, const uint32_t* ages) {
  if (n >= (int64_t{1} << 32)) {
    return InvalidArgument(
        "an op takes fewer than 2^32 keys a table. Received: " + std::to_string(n) + " keys");
  }
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  const RecordLayout& layout = state_.rule->layout();
  KERAS_SPARSE_RETURN_IF_ERROR(CheckRecords(records, n, width));
  KERAS_SPARSE_RETURN_IF_ERROR(CheckKeys(keys, n));
  KERAS_SPARSE_RETURN_IF_ERROR(BeginChange(executor));
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
      PartitionIds({{keys, n, max_partition_bits()}}, executor);
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
            layout.SetGradientStep(record, state_.num_steps - age);
          }
        }
      });
  KERAS_SPARSE_RETURN_IF_ERROR(status);
  KERAS_SPARSE_RETURN_IF_ERROR(replaces ? state_.tiers.EraseBelow(keys, n)
                                        : fetched[0].EraseBelow(this));
  FinishChange(executor);
  return Status::Ok();
}

Status EmbeddingTable::Clear(Executor* executor) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  return ClearRows(executor);
}

Status EmbeddingTable::Restore(const RuleHistory& history, Executor* executor) {
  const TableLocks locks({this}, TableLocks::Mode::kExclusive);
  if (state_.rule_generation > 0) {
    KERAS_SPARSE_RETURN_IF_ERROR(SavedRule::Replay(state_.rule->options(), history, &state_.rule));
  }
  state_.num_steps = history.table_step;
  state_.is_restoring = true;
  return ClearRows(executor);
}

Status EmbeddingTable::ClearRows(Executor* executor) {
  ++state_.version;
  if (state_.filter != nullptr) state_.filter->Clear();
  return state_.tiers.Clear(*state_.initializer, state_.rule->step(), executor);
}

}  // namespace keras_sparse
