#include "ops/core/operations/row_writer.h"

#include <algorithm>
#include <array>

namespace keras_sparse {

RowWriter::RowWriter(TableState* state, const FetchedRecords& fetched, bool catches_up)
    : state_(state),
      fetched_(fetched),
      catches_up_(catches_up && state->rule().defers_moves() && !state->layout().is_packed()),
      prefetch_bytes_(
          BytesToPrefetch(state->layout().record_bytes(), state->layout().record_bytes())),
      // Twice: the record is also written back, and its gradient is read.
      prefetch_(UpdatePrefetchOf(2 * prefetch_bytes_)) {}

void RowWriter::PrefetchIndex(const int64_t* ids, int64_t n) const {
  state_->tiers.first_tier().PrefetchIndex(ids, n);
}

bool RowWriter::may_skip() const {
  return state_->options.out_of_range_is_zero || state_->gate.filter() != nullptr;
}

void RowWriter::FindSkipped(const int64_t* ids, const uint32_t* occurrences, int64_t n,
                            char* skipped) {
  AdmissionFilter* filter = state_->gate.filter();
  if (filter == nullptr) {
    const OwnedKeys owned = state_->options.owned_keys();
    for (int64_t i = 0; i < n; ++i) skipped[i] = owned.Hold(ids[i]) ? 0 : 1;
    return;
  }
  const bool shares_counts = filter->keys_share_counts();
  const auto num_occurrences = [&](int64_t i) {
    return occurrences == nullptr ? 1 : occurrences[i];
  };
  PrefetchIndex(ids, std::min(kBlockRows, n));
  for (int64_t begin = 0; begin < n; begin += kBlockRows) {
    const int64_t end = std::min(n, begin + kBlockRows);
    PrefetchIndex(ids + end, std::min(kBlockRows, n - end));
    std::array<float*, kBlockRows> records;
    state_->tiers.first_tier().Find(ids + begin, end - begin, records.data());
    for (int64_t i = begin; i < end; ++i) {
      const bool has_row = records[static_cast<size_t>(i - begin)] != nullptr ||
                           (!fetched_.empty() && fetched_.Find(ids[i]) != nullptr);
      skipped[i] = has_row ? 0 : 1;
      if (!has_row) filter->Prefetch(ids[i]);
    }
    for (int64_t i = begin; i < end; ++i) {
      if (skipped[i] == 0) continue;
      const bool enters = shares_counts ? filter->WouldAdmit(ids[i], num_occurrences(i))
                                        : filter->Admit(ids[i], num_occurrences(i));
      if (enters) skipped[i] = 0;
      num_filtered_ += skipped[i];
    }
  }
  for (int64_t i = 0; shares_counts && i < n; ++i) {
    const int64_t next = std::min(i + kBlockRows, n - 1);
    if (skipped[next] != 0) filter->Prefetch(ids[next]);
    if (skipped[i] != 0) filter->CountWaiting(ids[i], num_occurrences(i));
  }
}

Status RowWriter::Locate(const int64_t* ids, int64_t n, float** records, bool* created) {
  return state_->tiers.first_tier().FindOrCreate(ids, n, records, created);
}

void RowWriter::Prepare(const int64_t* ids, int64_t n, float* const* records, const bool* created) {
  const UpdateRule& rule = state_->rule();
  for (int64_t i = 0; i < n; ++i) {
    if (created[i]) Create(ids[i], records[i]);
    if (catches_up_) rule.CatchUp(records[i]);
  }
}

void RowWriter::Create(int64_t id, float* record) {
  const RecordLayout& layout = state_->layout();
  const float* fetched = fetched_.empty() ? nullptr : fetched_.Find(id);
  if (fetched != nullptr) {
    std::copy_n(reinterpret_cast<const char*>(fetched), layout.record_bytes(),
                reinterpret_cast<char*>(record));
    return;
  }
  state_->gate.initializer().FillRecord(layout, id, record);
  layout.InitializeSlots(record, state_->rule().step());
  state_->gate.Forget(id);
  ++num_created_;
}

}  // namespace keras_sparse
