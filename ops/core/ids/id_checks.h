// IdChecks: what kernels report about ids for which a table in a GPU's memory has no row.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_ID_CHECKS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_ID_CHECKS_H_

#include <cstdint>
#include <string>

#include "ops/core/base/host_device.h"
#include "ops/core/base/status.h"
#include "ops/core/ids/owned_keys.h"

namespace keras_sparse {

// In the GPU's memory, one per request of an op. The CPU learns of a rejected id when it next waits
// for the GPU.
struct IdChecks {
  static constexpr unsigned long long kNone = ~0ull;

  // The first id that the table does not own, whichever lane came first.
  unsigned long long refused_place = kNone;
  int64_t refused_id = 0;
  // The first bag at which row_splits do not rise from 0 to the number of ids.
  unsigned long long refused_bag = kNone;
  // Ids outside a table that reads them as zeros, and ids without a row in a dynamic table.
  unsigned long long num_outside = 0;
  unsigned long long num_missing = 0;

  KERAS_SPARSE_HOST_DEVICE bool refuses() const {
    return refused_place != kNone || refused_bag != kNone;
  }

  // Stores the id of the rejected position if it is one of these ids. To be called after all ids of
  // an op have been checked.
  //   ids  (num_ids)
  KERAS_SPARSE_HOST_DEVICE void NameRefused(const int64_t* ids, int64_t num_ids,
                                            const OwnedKeys& owned) {
    if (refused_place >= static_cast<unsigned long long>(num_ids)) return;
    const int64_t id = ids[refused_place];
    if (!owned.Hold(id)) refused_id = id;
  }

  // Returns an error for the first rejected bag, or OK.
  //   of  suffix of the message that names the bags' owner
  Status BagsStatus(const std::string& of = "") const {
    if (refused_bag == kNone) return Status::Ok();
    return InvalidArgument("`row_splits` must rise from 0 to the number of ids" + of +
                           ". Received: a bag that does not, at row_splits[" +
                           std::to_string(refused_bag) + "]");
  }
  // Returns an error for the first rejected id or bag, or OK.
  Status ToStatus(const std::string& table, const OwnedKeys& owned) const {
    KERAS_SPARSE_RETURN_IF_ERROR(BagsStatus(", for table '" + table + "'"));
    if (refused_place == kNone) return Status::Ok();
    return owned.Refuse(table, "ids", static_cast<int64_t>(refused_place), refused_id);
  }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_ID_CHECKS_H_
