// RecordsOfKeys: the records of some keys, from whichever tiers hold them.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_RECORDS_OF_KEYS_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_RECORDS_OF_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/stores/record_batch.h"
#include "ops/core/table/tier_stack.h"

namespace keras_sparse {

// Points to records of the first tier in place, so they are valid until the table changes.
class RecordsOfKeys {
 public:
  //   keys  distinct
  static Status Read(const TierStack& tiers, const std::vector<int64_t>& keys,
                     RecordsOfKeys* records);

  // Returns null for a key without a row.
  const float* operator[](size_t i) const { return records_[i]; }

 private:
  std::vector<float*> records_;
  std::shared_ptr<const RecordBatch> below_;  // null if no record was read from a lower tier
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_RECORDS_OF_KEYS_H_
