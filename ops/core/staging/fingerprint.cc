#include "ops/core/staging/fingerprint.h"

#include <array>
#include <cstring>

#include "ops/core/ids/bags_hash.h"
#include "ops/core/operations/device_operations.h"
#include "ops/core/operations/lookup.h"

namespace keras_sparse {
namespace {

constexpr uint64_t kC1 = 0x87c37b91114253d5ULL;
constexpr uint64_t kC2 = 0x4cf5ad432745937fULL;

uint64_t Rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

uint64_t Finish(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

uint64_t MixLow(uint64_t word) { return Rotate(word * kC1, 31) * kC2; }
uint64_t MixHigh(uint64_t word) { return Rotate(word * kC2, 33) * kC1; }

template <typename T, size_t kSize>
Fingerprint With(const std::array<T, kSize>& words, Fingerprint seed) {
  return FingerprintOf(words.data(), sizeof(words), seed);
}

Fingerprint WithBags(uint64_t table, const Bags& bags, const BagsHash& hash, Fingerprint seed) {
  // Without bags or weights their hash is that of an empty list.
  const std::array<uint64_t, 10> words = {table,
                                          static_cast<uint64_t>(bags.combiner),
                                          static_cast<uint64_t>(bags.num_ids),
                                          static_cast<uint64_t>(bags.num_bags),
                                          hash.ids.low,
                                          hash.ids.high,
                                          hash.row_splits.low,
                                          hash.row_splits.high,
                                          hash.weights.low,
                                          hash.weights.high};
  return With(words, seed);
}

//   hashes  of each request's ids and bags
Fingerprint WithHashes(const std::vector<LookupRequest>& lookup,
                       const std::vector<BagsHash>& hashes) {
  Fingerprint result;
  for (size_t i = 0; i < lookup.size(); ++i) {
    const LookupRequest& request = lookup[i];
    result = WithBags(request.table->number(), request.bags, hashes[i], result);
    const OutputRows rows = request.rows.Of(request.table->dim());
    result = With(std::array<int64_t, 2>{rows.stride, static_cast<int64_t>(rows.type)}, result);
  }
  return result;
}

}  // namespace

Fingerprint FingerprintOf(const void* data, size_t num_bytes, Fingerprint seed) {
  const auto* bytes = static_cast<const char*>(data);
  uint64_t low = seed.low;
  uint64_t high = seed.high;
  std::array<uint64_t, 2> words;
  const size_t num_whole = num_bytes / 16 * 16;
  for (size_t at = 0; at < num_whole; at += 16) {
    std::memcpy(words.data(), bytes + at, 16);
    low = (Rotate(low ^ MixLow(words[0]), 27) + high) * 5 + 0x52dce729;
    high = (Rotate(high ^ MixHigh(words[1]), 31) + low) * 5 + 0x38495ab5;
  }
  if (num_bytes > num_whole) {
    words = {0, 0};
    std::memcpy(words.data(), bytes + num_whole, num_bytes - num_whole);
    low ^= MixLow(words[0]);
    high ^= MixHigh(words[1]);
  }
  low ^= num_bytes;
  high ^= num_bytes;
  low += high;
  high += low;
  low = Finish(low);
  high = Finish(high);
  low += high;
  return {low, high + low};
}

Fingerprint FingerprintOf(uint64_t table, const int64_t* ids, const Bags& bags, Fingerprint seed) {
  return WithBags(table, bags, HashOf({ids, bags}), seed);
}

Fingerprint FingerprintOf(const std::vector<LookupRequest>& lookup) {
  std::vector<BagsHash> hashes;
  hashes.reserve(lookup.size());
  for (const LookupRequest& request : lookup) hashes.push_back(HashOf({request.ids, request.bags}));
  return WithHashes(lookup, hashes);
}

Status FingerprintOfStep(const std::vector<LookupRequest>& lookup, Fingerprint* fingerprint) {
  if (!AreOnDevice(lookup)) {
    *fingerprint = FingerprintOf(lookup);
    return Status::Ok();
  }
  std::vector<BagsHash> hashes;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceOperations::Get().hash_lookup(lookup, &hashes));
  *fingerprint = WithHashes(lookup, hashes);
  return Status::Ok();
}

}  // namespace keras_sparse
