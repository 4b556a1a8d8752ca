// RecordsOfKeys: the records of some keys, in whichever tier they lie.
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

// Records of the first tier are read where they are, until the table changes.
class RecordsOfKeys {
 public:
  //   keys  all different
  static Status Read(const TierStack& tiers, const std::vector<int64_t>& keys,
                     RecordsOfKeys* records);

  // Null for a key without a row.
  const float* operator[](size_t i) const { return records_[i]; }

 private:
  std::vector<float*> records_;
  std::shared_ptr<const RecordBatch> below_;  // null if there was nothing to be read
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_RECORDS_OF_KEYS_H_
