#include "ops/core/operations/row_reader.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "ops/core/record/packed_record.h"

namespace keras_sparse {

RowReader::RowReader(const TableState& state, const FetchedRecords& fetched, const int64_t* ids,
                     int64_t begin, int64_t end)
    : state_(state),
      tier_(state.tiers.first_tier()),
      owned_(state.options.owned_keys()),
      rule_(state.rule()),
      default_rows_(state.gate.default_rows()),
      dim_(state.options.output_dim),
      is_packed_(state.layout().is_packed()),
      fetched_(fetched),
      moves_rows_(rule_.moves_rows()),
      prefetch_bytes_(
          BytesToPrefetch(moves_rows_ ? state.layout().record_bytes() : state.layout().row_bytes(),
                          state.layout().record_bytes())),
      level_(LevelOf(prefetch_bytes_)),
      rows_ahead_(RowsAhead(prefetch_bytes_, level_)),
      ids_(ids),
      end_(end),
      read_(begin),
      asked_(begin),
      found_(begin),
      window_begin_(begin) {
  tier_.PrefetchIndex(ids_ + begin, std::min(kIndexAhead, end - begin));
}

bool RowReader::refused() const {
  return counts_.out_of_range > 0 && !state_.options.outside_is_zero();
}

void RowReader::FindMore(int64_t first_used) {
  const int64_t n = std::min(kBlockRows, end_ - found_);
  if (found_ + n > window_begin_ + kWindowRows) {
    std::copy(window_.begin() + (first_used - window_begin_),
              window_.begin() + (found_ - window_begin_), window_.begin());
    window_begin_ = first_used;
  }
  constexpr auto kIdsPerLine = static_cast<int64_t>(kCacheLineBytes / sizeof(int64_t));
  for (int64_t i = 0; i < kBlockRows; i += kIdsPerLine) {
    PrefetchLineInto<CacheLevel::kFirst>(ids_ + std::min(found_ + kPrefetchIds + i, end_ - 1));
  }
  const int64_t next = found_ + kIndexAhead;
  if (next < end_) tier_.PrefetchIndex(ids_ + next, std::min(n, end_ - next));
  float** records = window_.data() + (found_ - window_begin_);
  tier_.Find(ids_ + found_, n, records);
  int64_t num_missing = 0;
  for (int64_t i = 0; i < n; ++i) num_missing += records[i] == nullptr ? 1 : 0;
  found_ += n;
  if (num_missing > 0) missing_end_ = found_;
}

float* RowReader::Made(int64_t i) {
  // Allocated on first use, because most readers need none.
  if (made_.empty()) made_.resize(static_cast<size_t>(kMaxRows * dim_));
  return made_.data() + i * dim_;
}

void RowReader::Move(const float* record, float* row) {
  if (!is_packed_) return rule_.Read(record, row);
  const auto words = static_cast<size_t>(rule_.float_layout().record_words());
  floats_.resize(words + static_cast<size_t>(dim_));
  UnpackRecord(state_.layout(), record, floats_.data());
  rule_.Read(floats_.data(), floats_.data() + words);
  PackRow(state_.layout(), floats_.data() + words, row);
}

void RowReader::MakeDefault(int64_t id, float* row) {
  default_rows_.FillRecord(state_.layout(), id, row);
}

const void* const* RowReader::ReadRecords(float* const* records, int64_t n) {
  // First finds the stale rows without branches, which would be mispredicted too often.
  std::array<int64_t, kMaxRows> stale;
  size_t num_stale = 0;
  for (int64_t i = 0; i < n; ++i) {
    rows_[static_cast<size_t>(i)] = records[i];
    stale[num_stale] = i;
    num_stale += rule_.IsCurrent(records[i]) ? 0 : 1;
  }
  for (size_t s = 0; s < num_stale; ++s) {
    float* made = Made(stale[s]);
    Move(records[stale[s]], made);
    rows_[static_cast<size_t>(stale[s])] = made;
  }
  return rows_.data();
}

const void* const* RowReader::Resolve(const int64_t* ids, int64_t n, float* const* records) {
  for (int64_t i = 0; i < n; ++i) {
    const float* record = records[i];
    if (record != nullptr) {
      ++counts_.hits;
    } else if (!fetched_.empty()) {
      record = fetched_.Find(ids[i]);
      if (record != nullptr) ++counts_.lower_hits;
    }
    if (record != nullptr && (!moves_rows_ || rule_.IsCurrent(record))) {
      rows_[static_cast<size_t>(i)] = record;
      continue;
    }
    float* made = Made(i);
    rows_[static_cast<size_t>(i)] = made;
    if (record != nullptr) {
      Move(record, made);
    } else if (owned_.Hold(ids[i])) {
      MakeDefault(ids[i], made);
    } else {
      ++counts_.out_of_range;
      std::fill_n(made, dim_, 0.0f);
    }
  }
  return rows_.data();
}

}  // namespace keras_sparse
