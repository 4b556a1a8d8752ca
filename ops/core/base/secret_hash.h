// A hash that only this process knows.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_SECRET_HASH_H_
#define KERAS_SPARSE_OPS_CORE_BASE_SECRET_HASH_H_

#include <cstdint>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

struct HashSecret {
  uint64_t added;
  uint64_t factor;
};
// Drawn when the library is loaded. A forked process shares its parent's.
extern const HashSecret kHashSecret;

// Returns the position of the key with this hash in an open-addressed table. `HashKey` is public,
// and keys come from outside: with its bits alone someone could choose keys with the same position,
// and each search would pass all others. No output, saved data or count may depend on this hash.
//
// Combines both halves of a product, as wyhash does (Wang Yi, public domain).
KERAS_SPARSE_HOST_DEVICE inline uint64_t SecretHash(uint64_t hash, const HashSecret& secret) {
  __extension__ using Product = unsigned __int128;
  const Product product = static_cast<Product>(hash ^ secret.added) * secret.factor;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}
inline uint64_t SecretHash(uint64_t hash) { return SecretHash(hash, kHashSecret); }

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_SECRET_HASH_H_
