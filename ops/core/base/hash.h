// The hash of a key. A table's layout may depend on it, but never saved data.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_HASH_H_
#define KERAS_SPARSE_OPS_CORE_BASE_HASH_H_

#include <cstdint>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

// The finalizer of MurmurHash3 (Appleby, public domain): a bijection of 64-bit words, so two keys
// never collide in all bits. High bits select the shard; `SecretHash` selects the position in the
// shard.
KERAS_SPARSE_HOST_DEVICE inline uint64_t HashKey(int64_t key) {
  uint64_t h = static_cast<uint64_t>(key);
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ULL;
  h ^= h >> 33;
  return h;
}

// Returns the key with this hash, by inverting each step.
inline int64_t KeyOfHash(uint64_t hash) {
  hash ^= hash >> 33;
  hash *= 0x9cb4b2f8129337dbULL;  // inverse of the second multiplier modulo 2^64
  hash ^= hash >> 33;
  hash *= 0x4f74430c22a54005ULL;  // inverse of the first
  hash ^= hash >> 33;
  return static_cast<int64_t>(hash);
}

// Returns the top `bits` bits of a hash; 0 bits select a single part.
inline uint32_t TopBits(uint64_t hash, int bits) {
  return bits == 0 ? 0 : static_cast<uint32_t>(hash >> (64 - bits));
}

// Maps 32 hash bits onto [0, n) without a division (Lemire, "Fast random integer generation in an
// interval", 2019).
KERAS_SPARSE_HOST_DEVICE inline uint32_t ReduceHash(uint32_t hash, uint32_t n) {
  return static_cast<uint32_t>((static_cast<uint64_t>(hash) * n) >> 32);
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_HASH_H_
