// The size of the processor's caches.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_CACHE_SIZE_H_
#define KERAS_SPARSE_OPS_CORE_BASE_CACHE_SIZE_H_

#include <cstdint>

namespace keras_sparse {

// Bytes of the third-level cache that the first processor shares with its neighbours, 0 if the
// system does not tell. What sysconf tells is, on some processors, all such caches of a machine
// together.
int64_t ThirdLevelCacheBytes();

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_CACHE_SIZE_H_
