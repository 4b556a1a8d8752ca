#include "ops/core/operations/row_access.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>

#include "ops/core/ids/out_of_range.h"

namespace keras_sparse {
namespace {

constexpr int64_t kIdsPerTask = 4096;

}  // namespace

bool AnyOutOfRange(const EmbeddingTable& table, const int64_t* ids, int64_t n) {
  if (table.is_dynamic() || table.out_of_range_is_zero()) return false;
  // The sign of an id or of its distance to the last row. AVX2 has no unsigned comparison.
  const auto last = static_cast<uint64_t>(table.input_dim()) - 1;
  uint64_t signs = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto id = static_cast<uint64_t>(ids[i]);
    signs |= id | (last - id);
  }
  return signs >> 63 != 0;
}

Status OutOfRangeError(const TableIds& list) {
  int64_t i = 0;
  while (!AnyOutOfRange(*list.table, list.ids + i, 1)) ++i;
  return OutOfRange(list.table->name(), list.table->input_dim(), i, list.ids[i]);
}

Status CheckIds(const std::vector<TableIds>& lists, Executor* executor) {
  std::vector<TableIds> pieces;
  for (const TableIds& list : lists) {
    for (int64_t begin = 0; begin < list.num_ids; begin += kIdsPerTask) {
      pieces.push_back({list.table, list.ids + begin, std::min(kIdsPerTask, list.num_ids - begin)});
    }
  }
  std::atomic<bool> any_refused{false};
  executor->ParallelFor(static_cast<int64_t>(pieces.size()), kIdsPerTask,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            const TableIds& piece = pieces[static_cast<size_t>(i)];
                            if (AnyOutOfRange(*piece.table, piece.ids, piece.num_ids)) {
                              any_refused.store(true, std::memory_order_relaxed);
                            }
                          }
                        });
  if (!any_refused) return Status::Ok();
  const auto refused = std::find_if(lists.begin(), lists.end(), [](const TableIds& list) {
    return AnyOutOfRange(*list.table, list.ids, list.num_ids);
  });
  return OutOfRangeError(*refused);
}

RowReader::RowReader(const EmbeddingTable& table, const FetchedRecords& fetched, const int64_t* ids,
                     int64_t begin, int64_t end)
    : table_(table),
      fetched_(fetched),
      default_rows_(table.state_.gate.default_rows()),
      moves_rows_(table.state_.rule().moves_rows()),
      prefetch_bytes_(
          BytesToPrefetch(moves_rows_ ? table.state_.layout().record_bytes() : 4 * table.dim(),
                          table.state_.layout().record_bytes())),
      level_(LevelOf(prefetch_bytes_)),
      rows_ahead_(std::clamp(kBytesAhead / prefetch_bytes_, kMinRowsAhead, kMaxRowsAhead)),
      ids_(ids),
      end_(end),
      read_(begin),
      asked_(begin),
      found_(begin),
      window_begin_(begin) {
  table_.state_.tiers.first_tier().PrefetchIndex(ids_ + begin, std::min(kIndexAhead, end - begin));
}

bool RowReader::refused() const {
  return counts_.out_of_range > 0 && !table_.out_of_range_is_zero();
}

void RowReader::FindMore(int64_t first_used) {
  const int64_t n = std::min(kBlockRows, end_ - found_);
  if (found_ + n > window_begin_ + kWindowRows) {
    std::copy(window_.begin() + (first_used - window_begin_),
              window_.begin() + (found_ - window_begin_), window_.begin());
    window_begin_ = first_used;
  }
  const int64_t next = found_ + kIndexAhead;
  if (next < end_)
    table_.state_.tiers.first_tier().PrefetchIndex(ids_ + next, std::min(n, end_ - next));
  float** records = window_.data() + (found_ - window_begin_);
  table_.state_.tiers.first_tier().Find(ids_ + found_, n, records);
  int64_t num_missing = 0;
  for (int64_t i = 0; i < n; ++i) num_missing += records[i] == nullptr ? 1 : 0;
  found_ += n;
  if (num_missing > 0) missing_end_ = found_;
}

float* RowReader::Made(int64_t i) {
  // Most readers need none, so the memory is taken when it is first needed.
  if (made_.empty()) made_.resize(static_cast<size_t>(kMaxRows * table_.dim()));
  return made_.data() + i * table_.dim();
}

const float* const* RowReader::ReadRecords(float* const* records, int64_t n) {
  // First which ones, and that without a branch: no guess would be right often enough.
  const UpdateRule& rule = table_.state_.rule();
  std::array<int64_t, kMaxRows> stale;
  size_t num_stale = 0;
  for (int64_t i = 0; i < n; ++i) {
    rows_[static_cast<size_t>(i)] = records[i];
    stale[num_stale] = i;
    num_stale += rule.IsCurrent(records[i]) ? 0 : 1;
  }
  for (size_t s = 0; s < num_stale; ++s) {
    float* made = Made(stale[s]);
    rule.Read(records[stale[s]], made);
    rows_[static_cast<size_t>(stale[s])] = made;
  }
  return rows_.data();
}

const float* const* RowReader::Resolve(const int64_t* ids, int64_t n, float* const* records) {
  for (int64_t i = 0; i < n; ++i) {
    const float* record = records[i];
    if (record != nullptr) {
      ++counts_.hits;
      if (!moves_rows_ || table_.state_.rule().IsCurrent(record)) {
        rows_[static_cast<size_t>(i)] = record;
        continue;
      }
    } else if (!fetched_.empty()) {
      record = fetched_.Find(ids[i]);
      if (record != nullptr) ++counts_.lower_hits;
    }
    float* made = Made(i);
    rows_[static_cast<size_t>(i)] = made;
    if (record != nullptr) {
      table_.state_.rule().Read(record, made);
    } else if (table_.state_.tiers.first_tier().Accepts(ids[i])) {
      default_rows_.Fill(ids[i], table_.dim(), made);
    } else {
      ++counts_.out_of_range;
      std::fill_n(made, table_.dim(), 0.0f);
    }
  }
  return rows_.data();
}

RowWriter::RowWriter(EmbeddingTable* table, const FetchedRecords& fetched)
    : table_(table),
      fetched_(fetched),
      defers_moves_(table->state_.rule().defers_moves()),
      prefetch_bytes_(BytesToPrefetch(table->state_.layout().record_bytes(),
                                      table->state_.layout().record_bytes())),
      // A record is written back too, and its gradient comes as well.
      prefetch_(UpdatePrefetchOf(2 * prefetch_bytes_)) {}

void RowWriter::PrefetchIndex(const int64_t* ids, int64_t n) const {
  table_->state_.tiers.first_tier().PrefetchIndex(ids, n);
}

bool RowWriter::may_skip() const {
  return table_->out_of_range_is_zero() || table_->state_.gate.filter() != nullptr;
}

void RowWriter::FindSkipped(const int64_t* ids, int64_t n, char* skipped) {
  AdmissionFilter* filter = table_->state_.gate.filter();
  if (filter == nullptr) {
    for (int64_t i = 0; i < n; ++i)
      skipped[i] = table_->state_.tiers.first_tier().Accepts(ids[i]) ? 0 : 1;
    return;
  }
  PrefetchIndex(ids, std::min(kBlockRows, n));
  for (int64_t begin = 0; begin < n; begin += kBlockRows) {
    const int64_t end = std::min(n, begin + kBlockRows);
    PrefetchIndex(ids + end, std::min(kBlockRows, n - end));
    std::array<float*, kBlockRows> records;
    table_->state_.tiers.first_tier().Find(ids + begin, end - begin, records.data());
    for (int64_t i = begin; i < end; ++i) {
      const bool has_row = records[static_cast<size_t>(i - begin)] != nullptr ||
                           (!fetched_.empty() && fetched_.Find(ids[i]) != nullptr);
      skipped[i] = has_row ? 0 : 1;
      if (!has_row) filter->Prefetch(ids[i]);
    }
    for (int64_t i = begin; i < end; ++i) {
      if (skipped[i] != 0 && filter->Admit(ids[i])) skipped[i] = 0;
      num_filtered_ += skipped[i];
    }
  }
}

Status RowWriter::Locate(const int64_t* ids, int64_t n, float** records, bool* created) {
  return table_->state_.tiers.first_tier().FindOrCreate(ids, n, records, created);
}

void RowWriter::Prepare(const int64_t* ids, int64_t n, float* const* records, const bool* created) {
  const UpdateRule& rule = table_->state_.rule();
  for (int64_t i = 0; i < n; ++i) {
    if (created[i]) {
      const float* fetched = fetched_.empty() ? nullptr : fetched_.Find(ids[i]);
      if (fetched != nullptr) {
        std::copy_n(reinterpret_cast<const char*>(fetched), rule.layout().record_bytes(),
                    reinterpret_cast<char*>(records[i]));
      } else {
        table_->state_.gate.initializer().Fill(ids[i], table_->dim(), records[i]);
        rule.layout().InitializeSlots(records[i], rule.step());
        table_->state_.gate.Forget(ids[i]);
        ++num_created_;
      }
    }
    if (defers_moves_) rule.CatchUp(records[i]);
  }
}

}  // namespace keras_sparse
