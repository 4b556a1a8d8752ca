// CheckBags: checks the row_splits of bags in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_CHECK_BAGS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_CHECK_BAGS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/ids/bags.h"
#include "ops/core/ids/id_checks.h"

namespace keras_sparse::cuda_impl {

// The ids of a bag.
struct BagIds {
  int64_t begin;
  int64_t end;

  // Returns whether the splits of a bag satisfy Bags::Check, as far as this bag shows.
  KERAS_SPARSE_HOST_DEVICE bool AreSound(const Bags& bags, int64_t bag) const {
    const bool begins = bag > 0 || begin == 0;
    const bool ends = bag + 1 < bags.num_bags || end == bags.num_ids;
    return begins && ends && begin >= 0 && begin <= end && end <= bags.num_ids;
  }
};

struct BagsToCheck {
  Bags bags;
  IdChecks* checks;  // in the GPU's memory
};

// Enqueues work on the device to find bags whose splits do not rise from 0 to the number of ids.
// When the work is done, the checks hold the first one.
Status CheckBags(const std::vector<BagsToCheck>& all, Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_IDS_CHECK_BAGS_H_
