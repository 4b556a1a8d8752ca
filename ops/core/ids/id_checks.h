// What kernels see of ids that a table in a GPU's memory has no row for.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_ID_CHECKS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_ID_CHECKS_H_

#include <cstdint>
#include <string>

#include "ops/core/base/host_device.h"
#include "ops/core/base/status.h"
#include "ops/core/ids/owned_keys.h"

namespace keras_sparse {

// In the GPU's memory, one a request of an op. The CPU hears of a refusal when it next waits for
// the GPU.
struct IdChecks {
  static constexpr unsigned long long kNone = ~0ull;

  // The first id that the table does not own, whatever lane came first.
  unsigned long long refused_place = kNone;
  int64_t refused_id = 0;
  // Where row_splits do not rise from 0 to the number of ids, the first bag that shows it.
  unsigned long long refused_bag = kNone;
  // Ids outside a table that reads such as zeros, and ids that a dynamic one has no row for.
  unsigned long long num_outside = 0;
  unsigned long long num_missing = 0;

  KERAS_SPARSE_HOST_DEVICE bool refuses() const {
    return refused_place != kNone || refused_bag != kNone;
  }

  // Keeps the id of a refused place, once all ids of an op have been seen, if it is one of these.
  //   ids  (num_ids)
  KERAS_SPARSE_HOST_DEVICE void NameRefused(const int64_t* ids, int64_t num_ids,
                                            const OwnedKeys& owned) {
    if (refused_place >= static_cast<unsigned long long>(num_ids)) return;
    const int64_t id = ids[refused_place];
    if (!owned.Hold(id)) refused_id = id;
  }

  // The error of bags that were refused; ok if none was.
  //   of  whose they are, for the message
  Status BagsStatus(const std::string& of = "") const {
    if (refused_bag == kNone) return Status::Ok();
    return InvalidArgument("`row_splits` must rise from 0 to the number of ids" + of +
                           ". Received: a bag that does not, at row_splits[" +
                           std::to_string(refused_bag) + "]");
  }
  // The error of what was refused; ok if nothing was.
  Status ToStatus(const std::string& table, const OwnedKeys& owned) const {
    KERAS_SPARSE_RETURN_IF_ERROR(BagsStatus(", for table '" + table + "'"));
    if (refused_place == kNone) return Status::Ok();
    return owned.Refuse(table, "ids", static_cast<int64_t>(refused_place), refused_id);
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_ID_CHECKS_H_
