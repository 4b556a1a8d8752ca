// The one error of an id outside a static table.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_OUT_OF_RANGE_H_
#define KERAS_SPARSE_OPS_CORE_IDS_OUT_OF_RANGE_H_

#include <cstdint>
#include <string>

#include "ops/core/base/status.h"

namespace keras_sparse {

inline Status OutOfRange(const std::string& table, int64_t input_dim, int64_t place, int64_t id) {
  return InvalidArgument("id must be in [0, " + std::to_string(input_dim) + ") for table '" +
                         table + "'; out_of_range=\"zero\" reads others as zeros. Received: ids[" +
                         std::to_string(place) + "] = " + std::to_string(id));
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_OUT_OF_RANGE_H_
