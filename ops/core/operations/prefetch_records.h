// What a stage does for lookups ahead of their steps, beside steps and other changes of the tables.
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

// Ids that will be looked up, in the CPU's memory wherever their table is.
struct PrefetchIds {
  const EmbeddingTable* table;
  const int64_t* ids;  // (num_ids) repeats allowed
  int64_t num_ids;
};

// Reads what lower tiers have of these ids, but for what is staged already, into the tables' staged
// records, which are held as long as `holds` live. A lookup or an update that comes then finds them
// there. While lower tiers are read the tables' locks are free; what changes meanwhile is not
// staged, so that no step can tell, but by its time. A GPU that has no room for the search is no
// error: nothing is staged then.
//
// Which rows of a table are not in a GPU's memory the GPU says, in its one stream: then it is asked
// after all updates that it was given before and before those that it is given later, without an
// event, and memory is freed in one order. The lock is held while the GPU is given this work, which
// takes some microseconds of its time, but not while it is waited for. On a stream of its own the
// search could begin while what came before it goes on, but the next update would have to wait for
// it, and a stage is batches ahead: that is what hides the wait.
// REQUIRES: the caller has no lock of these tables; those in a GPU's memory are in that of one
Status PrefetchRecords(const std::vector<PrefetchIds>& lists,
                       std::vector<StagedRecords::Hold>* holds);

// One table's part of PrefetchRecords.
class RecordsAhead {
 public:
  // From here on what changes below is not staged. To be called with the table's lock, before its
  // rows are searched: no row is on its way down then.
  //   stores  that may have the records
  void Begin(const TierStack& tiers, RowStores stores);
  bool has_begun() const { return reading_.has_value(); }
  // Needs no lock: what is staged and the stores take care of themselves.
  //   ids  that were in no store above these; repeats allowed
  Status Read(const std::vector<int64_t>& ids, StagedRecords::Hold* hold) const;

 private:
  RowStores stores_;
  StagedRecords* staged_ = nullptr;
  std::optional<StagedRecords::Reading> reading_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_PREFETCH_RECORDS_H_
