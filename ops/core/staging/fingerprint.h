// Fingerprint: identifies a lookup.
#ifndef KERAS_SPARSE_OPS_CORE_STAGING_FINGERPRINT_H_
#define KERAS_SPARSE_OPS_CORE_STAGING_FINGERPRINT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"

namespace keras_sparse {

struct Bags;
struct LookupRequest;

// 128 bits: among a billion lookups, the odds that any two have the same are below 1e-20.
struct Fingerprint {
  uint64_t low = 0;
  uint64_t high = 0;

  bool operator==(const Fingerprint& other) const { return low == other.low && high == other.high; }
};

// Continues from `seed` with some bytes: MurmurHash3_x64_128 (Appleby, public domain), whose state
// starts as the two words of the seed.
Fingerprint FingerprintOf(const void* data, size_t num_bytes, Fingerprint seed = {});

// Continues from `seed` with the ids, bags and weights of a lookup in the table with this number.
Fingerprint FingerprintOf(uint64_t table, const int64_t* ids, const Bags& bags, Fingerprint seed);

// Fingerprint of everything that decides a lookup's output except the content of tables: tables,
// combiners, ids, bags, weights, and the stride of its rows. All inputs are in host memory,
// wherever the tables are, because that is where a stage receives them.
Fingerprint FingerprintOf(const std::vector<LookupRequest>& lookup);

// As FingerprintOf, for a step, whose ids, bags and weights are in the memory of its tables. For a
// GPU's memory, the GPU computes it, and the call waits for the GPU.
Status FingerprintOfStep(const std::vector<LookupRequest>& lookup, Fingerprint* fingerprint);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STAGING_FINGERPRINT_H_
