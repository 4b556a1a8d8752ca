// How lookups and updates reach the rows of a table, a block of keys at a time.
#ifndef KERAS_SPARSE_OPS_CORE_ROW_ACCESS_H_
#define KERAS_SPARSE_OPS_CORE_ROW_ACCESS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/embedding_table.h"
#include "ops/core/fetched_records.h"
#include "ops/core/prefetch.h"

namespace keras_sparse {

// Whether the table refuses any of these ids: ids outside a static table are refused unless they
// read as zeros there.
bool AnyOutOfRange(const EmbeddingTable& table, const int64_t* ids, int64_t n);

// InvalidArgument that names the first refused id of a list.
// REQUIRES: there is one.
Status OutOfRangeError(const TableIds& list);

// OutOfRangeError of the first list that has a refused id.
Status CheckIds(const std::vector<TableIds>& lists, Executor* executor);

// What a loop over ids has seen, added to the table's statistics at its end.
struct ReadCounts {
  int64_t hits = 0;        // in the first tier
  int64_t lower_hits = 0;  // below it
  int64_t out_of_range = 0;
};

// Adds what a run of lookups has seen to the table's statistics.
void AddToStats(const EmbeddingTable& table, int64_t lookups, const ReadCounts& counts);

// Reads rows of one table. The table's lock is held. One object a thread.
class RowReader {
 public:
  RowReader(const EmbeddingTable& table, const FetchedRecords& fetched);

  // Starts bringing what Find will read into the cache, a block before it.
  void PrefetchIndex(const int64_t* ids, int64_t n) const;

  // Finds the records of a block; null where there is none.
  //   ids, records  (n), n <= kBlockRows
  void Find(const int64_t* ids, int64_t n, float** records) const;

  // Starts bringing records towards the processor, as many at once as rows_at_once.
  int64_t rows_at_once() const { return RowsAtOnce(prefetch_bytes_); }
  void PrefetchRecords(float* const* records, int64_t n) const {
    PrefetchRows(records, n, prefetch_bytes_);
  }

  // Turns what Find gave into rows as they read now: (n) pointers to dim floats, which are
  // `records` itself if all rows can be read as they stand. Other rows are made in the reader's own
  // memory, which the next call overwrites.
  const float* const* Resolve(const int64_t* ids, int64_t n, float* const* records,
                              ReadCounts* counts) {
    if (!moves_rows_ && AllFound(records, n)) {
      counts->hits += n;
      return records;
    }
    return ResolveEach(ids, n, records, counts);
  }

 private:
  static bool AllFound(float* const* records, int64_t n) {
    int64_t num_missing = 0;
    for (int64_t i = 0; i < n; ++i) num_missing += records[i] == nullptr ? 1 : 0;
    return num_missing == 0;
  }
  const float* const* ResolveEach(const int64_t* ids, int64_t n, float* const* records,
                                  ReadCounts* counts);

  const EmbeddingTable& table_;
  const FetchedRecords& fetched_;
  const Initializer& default_rows_;  // of keys without a row
  bool moves_rows_;
  int64_t prefetch_bytes_;
  std::array<const float*, kBlockRows> rows_;
  std::vector<float> made_;  // (kBlockRows, dim)
};

// Finds or creates the records of one table. The table's lock is held alone.
class RowWriter {
 public:
  RowWriter(EmbeddingTable* table, const FetchedRecords& fetched);

  // As in RowReader. A record is written back too, and its gradient comes as well.
  void PrefetchIndex(const int64_t* ids, int64_t n) const;
  int64_t rows_at_once() const { return RowsAtOnce(2 * prefetch_bytes_); }
  void PrefetchRecords(float* const* records, int64_t n) const {
    PrefetchRows(records, n, prefetch_bytes_);
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
  bool lazy_;
  int64_t prefetch_bytes_;
  int64_t num_created_ = 0;
  int64_t num_filtered_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_ROW_ACCESS_H_
