// PrefetchRecords: reads records for lookups ahead of their steps, concurrently with steps and
// changes.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_PREFETCH_RECORDS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_PREFETCH_RECORDS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/stores/row_store.h"
#include "ops/core/table/embedding_table.h"
#include "ops/core/table/staged_records.h"
#include "ops/core/table/tier_stack.h"

namespace keras_sparse {

// Ids that will be looked up, in host memory wherever their table is.
struct PrefetchIds {
  const EmbeddingTable* table;
  const int64_t* ids;  // (num_ids) repeats allowed
  int64_t num_ids;
};

// Reads the records of these ids that lower tiers have and that are not staged yet, and stages them
// while `holds` live. A later lookup or update finds them there. The tables' locks are free while
// lower tiers are read. Records that change meanwhile are not staged, so that a step sees a
// difference only in its time. If a GPU has no room for the search, nothing is staged, and the call
// returns OK.
//
// For a table in a GPU's memory, the GPU finds the ids that it lacks, in its one stream: after all
// updates enqueued before and before those enqueued later, without an event, and memory is freed in
// one order. The lock is held while the work is enqueued, which takes some microseconds of GPU
// time, but not while waiting for it. On a stream of its own the search could start earlier, but
// the next update would have to wait for it. A stage is batches ahead, which hides the wait.
// REQUIRES: the caller holds no lock of these tables; all tables in a GPU's memory are on one GPU
Status PrefetchRecords(const std::vector<PrefetchIds>& lists,
                       std::vector<StagedRecords::Hold>* holds);

// One table's part of PrefetchRecords.
class RecordsAhead {
 public:
  // Records that change in lower tiers from here on are not staged. To be called with the table's
  // lock, before its rows are searched: no row is being demoted then.
  //   stores  that may have the records
  void Begin(const TierStack& tiers, RowStores stores);
  bool has_begun() const { return reading_.has_value(); }
  // Needs no lock: staged records and stores are thread-safe.
  //   ids  that were in no store above these; repeats allowed
  Status Read(const std::vector<int64_t>& ids, StagedRecords::Hold* hold) const;

 private:
  RowStores stores_;
  StagedRecords* staged_ = nullptr;
  std::optional<StagedRecords::Reading> reading_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_PREFETCH_RECORDS_H_
