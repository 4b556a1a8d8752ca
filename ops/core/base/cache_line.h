// The unit in which memory is transferred.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_CACHE_LINE_H_
#define KERAS_SPARSE_OPS_CORE_BASE_CACHE_LINE_H_

#include <cstdint>

namespace keras_sparse {

constexpr int64_t kCacheLineBytes = 64;

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_CACHE_LINE_H_
