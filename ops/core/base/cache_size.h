// Sizes of the processor's caches.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_CACHE_SIZE_H_
#define KERAS_SPARSE_OPS_CORE_BASE_CACHE_SIZE_H_

#include <cstdint>

namespace keras_sparse {

// Returns the bytes of the third-level cache that the first processor shares with its neighbours, 0
// if the system does not report it. On some processors, sysconf reports the sum of all such caches
// of a machine.
int64_t ThirdLevelCacheBytes();

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_CACHE_SIZE_H_
