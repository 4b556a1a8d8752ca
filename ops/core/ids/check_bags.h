// Whether the row_splits of bags in a GPU's memory are sound.
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

  // Whether the splits at a bag are as Bags::Check asks, seen from there.
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

// Gives the device the work to find bags whose splits do not rise from 0 to the number of ids: the
// first one stands in the checks once it is done.
Status CheckBags(const std::vector<BagsToCheck>& all, Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_IDS_CHECK_BAGS_H_
