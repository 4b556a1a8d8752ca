// RowReader: how lookups reach the rows of a table, a block of keys at a time.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_READER_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_READER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "ops/core/ids/owned_keys.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/table/table_state.h"
#include "ops/core/table/table_stats.h"

namespace keras_sparse {

// Reads the rows of a list of ids, one after another. Those of the ids to come are on their way
// from memory meanwhile: for each row that is used one more is asked for, so that memory always
// has something to do. One object a thread.
class RowReader {
 public:
  // The most rows at once.
  static constexpr int64_t kMaxRows = 16;

  // Reads those of ids[begin], ids[begin + 1], ... ids[end - 1].
  RowReader(const TableState& state, const FetchedRecords& fetched, const int64_t* ids,
            int64_t begin, int64_t end);

  // The next n rows as they read now: pointers to dim floats each, which stay valid until the next
  // call.
  // REQUIRES: n <= kMaxRows; there are as many.
  const float* const* Next(int64_t n) {
    const int64_t first = read_;
    read_ += n;
    const int64_t asked = std::min(read_ + rows_ahead_, end_);
    while (found_ < asked) FindMore(first);
    PrefetchRows(window_.data() + (asked_ - window_begin_), asked - asked_, prefetch_bytes_,
                 level_);
    asked_ = asked;
    float* const* records = window_.data() + (first - window_begin_);
    if (first < missing_end_) return Resolve(ids_ + first, n, records);
    counts_.hits += n;
    return moves_rows_ ? ReadRecords(records, n) : records;
  }

  // Adds what it has read to the table's statistics, as this number of lookups.
  void CountLookups(int64_t n) const { state_.counters.AddLookups(n, counts_); }
  // Whether the table refuses an id that was read.
  bool refused() const;

 private:
  // How far memory is asked for ahead of use. The second-level cache has room for more.
  static constexpr int64_t kMinRowsAhead = 16;
  static constexpr int64_t kMaxRowsAheadInFirst = 32;
  static constexpr int64_t kMaxRowsAhead = 64;
  static constexpr int64_t kBytesAhead = 16384;
  static constexpr int64_t kIndexAhead = kBlockRows;
  // Where so many rows are on their way, the processor does not bring the ids by itself in time.
  static constexpr int64_t kPrefetchIds = 2 * kBlockRows;

  static int64_t RowsAhead(int64_t prefetch_bytes, CacheLevel level) {
    const int64_t most = level == CacheLevel::kFirst ? kMaxRowsAheadInFirst : kMaxRowsAhead;
    return std::clamp(kBytesAhead / prefetch_bytes, kMinRowsAhead, most);
  }
  // Rows found and not let go: those of one call, and those ahead, and room for many calls before
  // they have to move.
  static constexpr int64_t kWindowRows = 256;
  static_assert(kWindowRows >= 2 * (kMaxRows + kMaxRowsAhead + kBlockRows), "moves seldom");

  // Finds a block of records more; lets go of those before `first_used`.
  void FindMore(int64_t first_used);
  // Records as rows. Those that cannot be read as they stand are made in the reader's own memory.
  const float* const* ReadRecords(float* const* records, int64_t n);
  // The same where ids may have no record, which is null then.
  const float* const* Resolve(const int64_t* ids, int64_t n, float* const* records);
  // Room for row `i` of a call.
  float* Made(int64_t i);

  const TableState& state_;
  const FirstTier& tier_;
  const OwnedKeys owned_;
  const UpdateRule& rule_;
  const Initializer& default_rows_;  // of keys without a row
  const int64_t dim_;
  const FetchedRecords& fetched_;
  const bool moves_rows_;
  const int64_t prefetch_bytes_;
  const CacheLevel level_;
  const int64_t rows_ahead_;
  const int64_t* const ids_;
  const int64_t end_;
  int64_t read_;             // ids before it have been read
  int64_t asked_;            // memory has been asked for before it
  int64_t found_;            // records have been found before it
  int64_t window_begin_;     // the id whose record comes first in the window
  int64_t missing_end_ = 0;  // from it on no id without a record has been found
  ReadCounts counts_;
  std::array<float*, kWindowRows> window_;
  std::array<const float*, kMaxRows> rows_;
  std::vector<float> made_;  // (kMaxRows, dim)
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_READER_H_
