// EvictionCandidates: rows that an eviction lets go, before they do.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_CANDIDATES_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_CANDIDATES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keras_sparse {

struct EvictionCandidates {
  std::vector<int64_t> keys;  // first those of the first tier
  size_t num_above = 0;       // how many these are
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_CANDIDATES_H_
