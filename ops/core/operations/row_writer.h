// RowWriter: finds and creates the records of a table for updates, a block of keys at a time.
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
  //   catches_up  whether missed steps are applied to the records
  RowWriter(TableState* state, const FetchedRecords& fetched, bool catches_up = true);

  // Prefetches the index entries that Locate will read, one block ahead.
  void PrefetchIndex(const int64_t* ids, int64_t n) const;

  // Prefetches records: to be called for rows_at_once() of them at a time, rows_ahead() rows before
  // their use.
  int64_t rows_at_once() const { return prefetch_.rows_at_once; }
  int64_t rows_ahead() const { return prefetch_.rows_ahead; }
  void PrefetchRecords(float* const* records, int64_t n) const {
    PrefetchRows(records, n, prefetch_bytes_, prefetch_.level);
  }

  // Returns whether FindSkipped may find any id.
  bool may_skip() const;

  // Marks the ids that an update skips: ids outside a static table, and ids without a row that the
  // table's filter does not admit yet. The filter counts these ids here.
  //   ids, skipped  (n), ids distinct
  //   occurrences   (n) how often each id came; null if the filter does not need it
  void FindSkipped(const int64_t* ids, const uint32_t* occurrences, int64_t n, char* skipped);

  // Finds the records of a block and creates the missing ones. After an error nothing of the block
  // is created.
  //   ids, records, created  (n), n <= kBlockRows; ids distinct
  Status Locate(const int64_t* ids, int64_t n, float** records, bool* created);

  // Initializes the records that Locate created, and applies missed steps to the others. Packed
  // records stay as they are: their update applies the steps, so that they are rounded once. Each
  // located block must be prepared, whatever happens in between.
  void Prepare(const int64_t* ids, int64_t n, float* const* records, const bool* created);

  // Returns how many rows were created by gradients, rather than promoted from a lower tier.
  int64_t num_created() const { return num_created_; }
  // Returns how many ids the filter has rejected.
  int64_t num_filtered() const { return num_filtered_; }

 private:
  void Create(int64_t id, float* record);

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
