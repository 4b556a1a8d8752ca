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
// Drawn when the library is loaded. A forked process has its parent's.
extern const HashSecret kHashSecret;

// Where the key of this hash belongs in a table of open addresses. `HashKey` is known, and keys
// come from outside: with its bits alone someone could choose keys that all belong in one place,
// and each would be looked for behind all others. Nothing that is given out, saved or counted may
// depend on it.
//
// Both halves of a product, as in wyhash (Wang Yi, public domain).
KERAS_SPARSE_HOST_DEVICE inline uint64_t SecretHash(uint64_t hash, const HashSecret& secret) {
  __extension__ using Product = unsigned __int128;
  const Product product = static_cast<Product>(hash ^ secret.added) * secret.factor;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}
inline uint64_t SecretHash(uint64_t hash) { return SecretHash(hash, kHashSecret); }

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_SECRET_HASH_H_
