#include "ops/core/staging/fingerprint.h"

#include <array>
#include <cstring>

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
  const auto add = [&seed](const void* data, int64_t num_bytes) {
    seed = FingerprintOf(data, static_cast<size_t>(num_bytes), seed);
  };
  const std::array<uint64_t, 2> kind = {table, static_cast<uint64_t>(bags.combiner)};
  add(kind.data(), sizeof(kind));
  add(ids, 8 * bags.num_ids);
  // Without bags or weights nothing is added, and the next length says so.
  const bool is_pooled = bags.combiner != Combiner::kNone;
  add(bags.row_splits, is_pooled ? 8 * (bags.num_bags + 1) : 0);
  add(bags.weights, bags.weights == nullptr ? 0 : 4 * bags.num_ids);
  return seed;
}

Fingerprint FingerprintOf(const std::vector<LookupRequest>& lookup) {
  Fingerprint result;
  for (const LookupRequest& request : lookup) {
    result = FingerprintOf(request.table->number(), request.ids, request.bags, result);
    const OutputRows rows = request.rows.Of(request.table->dim());
    const std::array<int64_t, 2> form = {rows.stride, static_cast<int64_t>(rows.type)};
    result = FingerprintOf(form.data(), sizeof(form), result);
  }
  return result;
}

}  // namespace keras_sparse
