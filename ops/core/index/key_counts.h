// KeyCounts: the count of each key of one key shard, in at most 16 bytes per key.
#ifndef KERAS_SPARSE_OPS_CORE_INDEX_KEY_COUNTS_H_
#define KERAS_SPARSE_OPS_CORE_INDEX_KEY_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/secret_hash.h"
#include "ops/core/math/prefetch.h"

namespace keras_sparse {

// A hash table with linear probing in Robin Hood order (Celis, Larson and Munro, 1985): a run of
// entries is sorted by home slot, then by place. So a search ends after a few entries, however full
// the table is, and an erased entry leaves no trace. All entries move to a table of another size in
// one pass over both. The table is kept 77 % to 88 % full by growing a tenth at a time. An entry of
// 12 bytes therefore needs at most 15.6 bytes. Growing needs one more copy of one shard in its new
// size.
//
// An entry stores its place: the hash times a secret, so that no caller can choose keys that all
// belong in one run. The key can be computed from the place. Products with an odd number are
// universal in their top bits (Dietzfelbinger et al., 1997). Every place belongs to a key, so an
// empty slot has a count of 0.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the object.
class KeyCounts {
 public:
  // The top `skip_bits` bits of a hash have selected the shard and are the same for all keys here.
  explicit KeyCounts(int skip_bits, const HashSecret& secret = kHashSecret)
      : skip_bits_(skip_bits), secret_(secret), inverse_(InverseOf(secret.factor)) {}

  int64_t size() const { return size_; }
  int64_t bytes() const { return static_cast<int64_t>(slots_.capacity() * sizeof(Entry)); }

  void Prefetch(uint64_t hash) const {
    if (!slots_.empty()) PrefetchLine(slots_.data() + Home(PlaceOf(hash)));
  }

  // Returns the count of a key, 0 if it has none.
  uint32_t Get(uint64_t hash) const;

  // Adds n > 0, saturating at 2^32 - 1; returns the new count.
  uint32_t Add(uint64_t hash, uint32_t n);

  // Sets a count; 0 erases it.
  void Set(uint64_t hash, uint32_t count);

  void Erase(uint64_t hash);

  // Returns all entries in the order of their hashes, in pieces of at most `num_entries`, or more
  // if more agree in kCursorBits bits. Each piece scans all entries. A piece starts at `cursor`
  // (first 0); returns the next cursor, below 2^kCursorBits, or -1 at the end.
  int64_t Walk(int64_t cursor, int64_t num_entries, std::vector<int64_t>* keys,
               std::vector<uint32_t>* counts) const;
  static constexpr int kCursorBits = 40;

 private:
  struct Entry {
    uint32_t low;  // the words of the place: a uint64_t would be aligned to 8 bytes
    uint32_t high;
    uint32_t count;
    uint64_t place() const { return (static_cast<uint64_t>(high) << 32) | low; }
  };
  static_assert(sizeof(Entry) == 12, "an entry takes no more than it needs");

  // Returns the inverse of an odd number modulo 2^64 by Newton's iteration, which doubles the
  // correct bits.
  static uint64_t InverseOf(uint64_t factor) {
    uint64_t inverse = factor;  // three correct bits
    for (int bits = 3; bits < 64; bits *= 2) inverse *= 2 - factor * inverse;
    return inverse;
  }
  uint64_t PlaceOf(uint64_t hash) const { return (hash ^ secret_.added) * secret_.factor; }
  uint64_t HashOf(const Entry& entry) const { return entry.place() * inverse_ ^ secret_.added; }

  // Returns the home slot of an entry in a table of `num_slots` slots: it increases with the place.
  static size_t HomeIn(size_t num_slots, uint64_t place) {
    return static_cast<size_t>((place >> 32) * num_slots >> 32);
  }
  size_t Home(uint64_t place) const { return HomeIn(slots_.size(), place); }
  size_t Next(size_t at) const { return at + 1 == slots_.size() ? 0 : at + 1; }
  // Returns how far the entry in this slot is behind its home.
  size_t Distance(size_t at) const {
    const size_t home = Home(slots_[at].place());
    return at >= home ? at - home : at + slots_.size() - home;
  }
  // Returns the slot of a key, or the slot where it would be inserted.
  // REQUIRES: there are slots
  size_t Find(uint64_t place, bool* found) const;
  void Insert(uint64_t place, uint32_t count);
  void Place(size_t at, uint64_t place, uint32_t count);
  void Resize(size_t num_slots);

  int skip_bits_;
  HashSecret secret_;
  uint64_t inverse_;
  int64_t size_ = 0;
  std::vector<Entry> slots_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_INDEX_KEY_COUNTS_H_
