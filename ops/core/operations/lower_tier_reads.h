// What a lookup in a GPU's memory reads of the tiers below it.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_LOWER_TIER_READS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_LOWER_TIER_READS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/operations/row_lookup_result.h"

namespace keras_sparse::cuda_impl {

// The rows of a list of ids that are in cold tiers, in the GPU's memory for as long as the lookup
// takes: no row moves to another tier. What is read stays staged for the update of the same step.
class LowerTierReads {
 public:
  // Of each of the lists that were found. There are none where all rows are above.
  static Status Read(const RowLookupResult& found, const std::vector<DeviceIds>& lists,
                     Device* device, std::vector<LowerTierReads>* rows);

  // For IdRows; null where there are none.
  const uint32_t* found() const { return found_.data(); }
  const float* rows() const { return rows_.data(); }
  // How many of the ids have one.
  int64_t num_hits() const { return num_hits_; }

 private:
  // Of one list.
  Status Read(const MissingIds& missing, const DeviceIds& ids, Device* device);

  DeviceArray<uint32_t> found_;
  DeviceArray<float> rows_;
  int64_t num_hits_ = 0;
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_LOWER_TIER_READS_H_
