// HbmLimit: the size limit of a table in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_LIMIT_H_
#define KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_LIMIT_H_

#include <cstdint>
#include <string>

namespace keras_sparse {

struct HbmLimit {
  // Maximum bytes of the records alone. If there are lower tiers, of everything that rows use, and
  // an update may exceed it.
  int64_t bytes = INT64_MAX;
  // "LRU" or "LFU": selects the rows to demote. Empty without lower tiers.
  std::string strategy = {};
  std::string table = {};  // its name, for errors

  bool is_over_lower_tiers() const { return !strategy.empty(); }
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_LIMIT_H_
