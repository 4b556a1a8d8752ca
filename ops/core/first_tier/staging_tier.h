// The first tier of a table whose rows are used in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_FIRST_TIER_STAGING_TIER_H_
#define KERAS_SPARSE_OPS_CORE_FIRST_TIER_STAGING_TIER_H_

#include "ops/core/first_tier/hash_table_tier.h"

namespace keras_sparse {

// On the CPU rows are on their way alone: those that an import writes are here until they go to the
// tier below, which is the GPU's memory. Otherwise it is empty.
class StagingTier : public HashTableTier {
 public:
  explicit StagingTier(const RecordLayout& layout) : HashTableTier(layout) {}

  // All rows are too many.
  Status DemoteExcess(Executor* executor, const PutRecords& put) override;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FIRST_TIER_STAGING_TIER_H_
