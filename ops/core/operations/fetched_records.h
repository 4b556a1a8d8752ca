// FetchedRecords: all records of an op from lower tiers, read at once.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_FETCHED_RECORDS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_FETCHED_RECORDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/hash.h"
#include "ops/core/base/status.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/operations/check_ids.h"
#include "ops/core/stores/record_batch.h"
#include "ops/core/table/staged_records.h"
#include "ops/core/table/tier_stack.h"

namespace keras_sparse {

// The records of an op that are in lower tiers, by key. Empty for a table of one tier.
class FetchedRecords {
 public:
  // Collects all keys of the op that no first tier has. Reads from the lower tiers those that are
  // not staged, in one batch per tier. Returns one result per element of `lists`.
  static Status Fetch(const std::vector<TableIds>& lists, Executor* executor,
                      std::vector<FetchedRecords>* fetched);

  // As Fetch, for keys that are not in a GPU's memory, from the tiers below it.
  //   keys  distinct
  Status FetchCold(const TierStack& tiers, const std::vector<int64_t>& keys) {
    return FetchMissing(tiers, tiers.cold_stores(), keys);
  }

  bool empty() const { return keys_.empty(); }
  // Returns the keys that were found.
  const std::vector<int64_t>& keys() const { return keys_; }
  // Returns the record of a key, or null if no lower tier has it.
  // REQUIRES: !empty()
  const float* Find(int64_t key) const {
    const uint32_t place = index_->Find(HashKey(key), key);
    return place == HashIndex::kNoRow ? nullptr : records_[place];
  }
  // Keeps the records for the next update of the table.
  void Stage(const TierStack& tiers) const;
  // Drops the records from the cold tiers, after the rows were promoted.
  Status EraseCold(TierStack* tiers) const;

  // Appends the ids that the first tier does not have.
  static void AppendMissing(const FirstTier& tier, const int64_t* ids, int64_t n,
                            std::vector<int64_t>* missing);
  // Returns each key once, ordered by first occurrence, so that stores see the same batch whatever
  // the timing of threads.
  static std::vector<int64_t> Distinct(const std::vector<std::vector<int64_t>>& lists);
  // Returns the keys whose record is null.
  static std::vector<int64_t> WithoutRecord(const std::vector<int64_t>& keys,
                                            const std::vector<const float*>& records);

 private:
  //   keys  distinct, none of them above the stores
  Status FetchMissing(const TierStack& tiers, const RowStores& stores,
                      const std::vector<int64_t>& keys);
  void Add(int64_t key, const float* record);

  StagedRecords::Batches batches_;           // hold the records
  std::shared_ptr<const RecordBatch> read_;  // the batch that this op has read; null if none
  std::optional<HashIndex> index_;           // key -> its position in keys_ and records_
  std::vector<int64_t> keys_;                // keys found
  std::vector<const float*> records_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_FETCHED_RECORDS_H_
