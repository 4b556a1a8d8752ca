// The size of a table in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_LIMIT_H_
#define KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_LIMIT_H_

#include <cstdint>
#include <string>

namespace keras_sparse {

struct HbmLimit {
  // Of records alone that there may be at most; over lower tiers of all that rows take, and an
  // update may exceed it.
  int64_t bytes = INT64_MAX;
  // "LRU" or "LFU": which rows leave for the lower tiers. Empty where there are none.
  std::string strategy = {};
  std::string table = {};  // its name, for errors

  bool is_over_lower_tiers() const { return !strategy.empty(); }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_LIMIT_H_
