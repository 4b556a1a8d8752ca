// RowWriter: how updates reach the records of a table, a block of keys at a time.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_WRITER_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_WRITER_H_

#include <cstdint>

#include "ops/core/base/status.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/operations/fetched_records.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse {

// Finds or creates the records of one table.
class RowWriter {
 public:
  //   catches_up  whether records are to be as their optimizer has them now
  RowWriter(TableState* state, const FetchedRecords& fetched, bool catches_up = true);

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
  //   occurrences   (n) how often each id came; null where the filter does not ask
  void FindSkipped(const int64_t* ids, const uint32_t* occurrences, int64_t n, char* skipped);

  // Finds the records of a block, creating those that are missing. On an error the block is as if
  // it had not been asked for.
  //   ids, records, created  (n), n <= kBlockRows; ids all different
  Status Locate(const int64_t* ids, int64_t n, float** records, bool* created);

  // Gives what Locate created its content, and catches records up. Each located block
  // must be prepared, whatever happens in between.
  void Prepare(const int64_t* ids, int64_t n, float* const* records, const bool* created);

  // Rows made so far that a gradient created, and not a lower tier.
  int64_t num_created() const { return num_created_; }
  // Ids that the filter has kept from having a row so far.
  int64_t num_filtered() const { return num_filtered_; }

 private:
  TableState* state_;
  const FetchedRecords& fetched_;
  bool catches_up_;
  int64_t prefetch_bytes_;
  UpdatePrefetch prefetch_;
  int64_t num_created_ = 0;
  int64_t num_filtered_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_WRITER_H_
