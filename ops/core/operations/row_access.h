// How lookups and updates reach the rows of a table, a block of keys at a time.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_ACCESS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_ACCESS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/math/prefetch.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/table/embedding_table.h"

namespace keras_sparse {

// Whether the table refuses any of these ids: ids outside a static table are refused unless they
// read as zeros there.
bool AnyOutOfRange(const EmbeddingTable& table, const int64_t* ids, int64_t n);

// InvalidArgument that names the first refused id of a list.
// REQUIRES: there is one.
Status OutOfRangeError(const TableIds& list);

// OutOfRangeError of the first list that has a refused id.
Status CheckIds(const std::vector<TableIds>& lists, Executor* executor);

// Reads the rows of a list of ids, one after another. Those of the ids to come are on their way
// from memory meanwhile: for each row that is used another one is asked for, so that memory always
// has something to do. The table's lock is held. One object a thread.
class RowReader {
 public:
  // At most so many rows at once.
  static constexpr int64_t kMaxRows = 16;

  // Reads those of ids[begin], ids[begin + 1], ... ids[end - 1].
  RowReader(const EmbeddingTable& table, const FetchedRecords& fetched, const int64_t* ids,
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

  // Adds what it has read to the table's statistics, as so many lookups.
  void CountLookups(int64_t n) const { table_.state_.counters.AddLookups(n, counts_); }
  // Whether an id that was read is outside a table that refuses such.
  bool refused() const;

 private:
  // How far memory is asked for ahead of use.
  static constexpr int64_t kMinRowsAhead = 16;
  static constexpr int64_t kMaxRowsAhead = 32;
  static constexpr int64_t kBytesAhead = 16384;
  static constexpr int64_t kIndexAhead = kBlockRows;
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

  const EmbeddingTable& table_;
  const FetchedRecords& fetched_;
  const Initializer& default_rows_;  // of keys without a row
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

// Finds or creates the records of one table. The table's lock is held alone.
class RowWriter {
 public:
  RowWriter(EmbeddingTable* table, const FetchedRecords& fetched);

  // Starts bringing what Locate will read into the cache, a block before it.
  void PrefetchIndex(const int64_t* ids, int64_t n) const;

  // Starts bringing records towards the processor: to be called for rows_at_once() of them at a
  // time, rows_ahead() before their use.
  int64_t rows_at_once() const { return prefetch_.rows_at_once; }
  int64_t rows_ahead() const { return prefetch_.rows_ahead; }
  void PrefetchRecords(float* const* records, int64_t n) const {
    PrefetchRows(records, n, prefetch_bytes_, prefetch_.level);
  }

  // Whether FindSkipped may find any.
  bool may_skip() const;

  // Which ids an update leaves out: those outside a static table, and those without a row that the
  // table's filter does not admit yet, which it counts here.
  //   ids, skipped  (n), ids all different
  void FindSkipped(const int64_t* ids, int64_t n, char* skipped);

  // Finds the records of a block, creating those that are missing. On an error the block is as if
  // it had not been asked for.
  //   ids, records, created  (n), n <= kBlockRows; ids all different
  Status Locate(const int64_t* ids, int64_t n, float** records, bool* created);

  // Gives what Locate created its content, and catches the other records up. Each located block
  // must be prepared, whatever happens in between.
  void Prepare(const int64_t* ids, int64_t n, float* const* records, const bool* created);

  // Rows made so far that a gradient created, and not a lower tier.
  int64_t num_created() const { return num_created_; }
  // Ids that the filter has kept from having a row so far.
  int64_t num_filtered() const { return num_filtered_; }

 private:
  EmbeddingTable* table_;
  const FetchedRecords& fetched_;
  bool defers_moves_;
  int64_t prefetch_bytes_;
  UpdatePrefetch prefetch_;
  int64_t num_created_ = 0;
  int64_t num_filtered_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_ACCESS_H_
