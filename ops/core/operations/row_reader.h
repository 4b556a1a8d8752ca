// RowReader: reads the rows of a table for lookups, a block of keys at a time.
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

// Reads the rows of a list of ids in order, and prefetches later ones: each row used requests
// another, so that memory is always busy. One object per thread.
class RowReader {
 public:
  // Maximum number of rows per call.
  static constexpr int64_t kMaxRows = 16;

  // Reads the rows of ids[begin] to ids[end - 1].
  RowReader(const TableState& state, const FetchedRecords& fetched, const int64_t* ids,
            int64_t begin, int64_t end);

  // Returns the current values of the next n rows: pointers to dim floats each, of the type of the
  // table's rows, valid until the next call.
  // REQUIRES: n <= kMaxRows and at most the number of rows left
  const void* const* Next(int64_t n) {
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
    if (moves_rows_) return ReadRecords(records, n);
    std::copy_n(records, n, rows_.data());
    return rows_.data();
  }

  // Adds the counts of this reader to the table's statistics, as `n` lookups.
  void CountLookups(int64_t n) const { state_.counters.AddLookups(n, counts_); }
  // Returns whether the table rejects an id that was read.
  bool refused() const;

 private:
  // How far ahead rows are prefetched. The second-level cache has room for more.
  static constexpr int64_t kMinRowsAhead = 16;
  static constexpr int64_t kMaxRowsAheadInFirst = 32;
  static constexpr int64_t kMaxRowsAhead = 64;
  static constexpr int64_t kBytesAhead = 16384;
  static constexpr int64_t kIndexAhead = kBlockRows;
  // With this many rows in flight, the processor's own prefetcher loads the ids too late.
  static constexpr int64_t kPrefetchIds = 2 * kBlockRows;

  static int64_t RowsAhead(int64_t prefetch_bytes, CacheLevel level) {
    const int64_t most = level == CacheLevel::kFirst ? kMaxRowsAheadInFirst : kMaxRowsAhead;
    return std::clamp(kBytesAhead / prefetch_bytes, kMinRowsAhead, most);
  }
  // Rows found and still needed: those of one call, those ahead, and room for many calls before
  // entries have to move.
  static constexpr int64_t kWindowRows = 256;
  static_assert(kWindowRows >= 2 * (kMaxRows + kMaxRowsAhead + kBlockRows), "moves seldom");

  // Finds another block of records; drops those before `first_used`.
  void FindMore(int64_t first_used);
  // Turns records into rows. Rows that cannot be read in place are computed in the reader's memory.
  const void* const* ReadRecords(float* const* records, int64_t n);
  // As ReadRecords, for ids that may have no record, which is null then.
  const void* const* Resolve(const int64_t* ids, int64_t n, float* const* records);
  // Returns memory for row `i` of a call.
  float* Made(int64_t i);
  // Computes the current row of a record that misses steps, and the row of a key without a record.
  void Move(const float* record, float* row);
  void MakeDefault(int64_t id, float* row);

  const TableState& state_;
  const FirstTier& tier_;
  const OwnedKeys owned_;
  const UpdateRule& rule_;
  const Initializer& default_rows_;  // of keys without a row
  const int64_t dim_;
  const bool is_packed_;
  const FetchedRecords& fetched_;
  const bool moves_rows_;
  const int64_t prefetch_bytes_;
  const CacheLevel level_;
  const int64_t rows_ahead_;
  const int64_t* const ids_;
  const int64_t end_;
  int64_t read_;             // end of the ids read
  int64_t asked_;            // end of the rows prefetched
  int64_t found_;            // end of the records found
  int64_t window_begin_;     // the id of the window's first record
  int64_t missing_end_ = 0;  // end of the ids among which one without a record was found
  ReadCounts counts_;
  std::array<float*, kWindowRows> window_;
  std::array<const void*, kMaxRows> rows_;
  std::vector<float> made_;    // kMaxRows rows, with room for float32
  std::vector<float> floats_;  // a float record and its row, if records are packed
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_READER_H_
