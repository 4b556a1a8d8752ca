// What a lookup is recognised by.
#ifndef KERAS_SPARSE_OPS_CORE_STAGING_FINGERPRINT_H_
#define KERAS_SPARSE_OPS_CORE_STAGING_FINGERPRINT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"

namespace keras_sparse {

struct Bags;
struct LookupRequest;

// 128 bits: of a billion lookups, the odds that any two have the same are below 1e-20.
struct Fingerprint {
  uint64_t low = 0;
  uint64_t high = 0;

  bool operator==(const Fingerprint& other) const { return low == other.low && high == other.high; }
};

// Goes on from `seed` with some bytes: MurmurHash3_x64_128 (Appleby, public domain), whose two
// words of state begin as those of the seed.
Fingerprint FingerprintOf(const void* data, size_t num_bytes, Fingerprint seed = {});

// Goes on with ids that are looked up in a table of this number, their bags and weights.
Fingerprint FingerprintOf(uint64_t table, const int64_t* ids, const Bags& bags, Fingerprint seed);

// Of what decides a lookup's output, but for what the tables hold: tables, combiners, ids, bags,
// weights, and how far apart its rows are. All of it is in the CPU's memory, wherever the tables
// are: a stage is given it there.
Fingerprint FingerprintOf(const std::vector<LookupRequest>& lookup);

// The same of a step, whose ids, bags and weights are where the tables are. Of those in a GPU's
// memory the GPU makes it, and is waited for.
Status FingerprintOfStep(const std::vector<LookupRequest>& lookup, Fingerprint* fingerprint);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STAGING_FINGERPRINT_H_
