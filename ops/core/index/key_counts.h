// How often each key of one key shard has been counted, in at most 16 bytes a key.
#ifndef KERAS_SPARSE_OPS_CORE_INDEX_KEY_COUNTS_H_
#define KERAS_SPARSE_OPS_CORE_INDEX_KEY_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/secret_hash.h"
#include "ops/core/math/prefetch.h"

namespace keras_sparse {

// A hash table with linear probing in the order of Robin Hood (Celis, Larson and Munro, 1985): a
// run of entries is sorted by where they belong, and there by their place, so that a search ends a
// few entries on, however full the table is, an erased entry leaves no trace, and all entries move
// to a table of another size in one pass over both. It is kept between 77 % and 88 % full, by
// growing a tenth at a time: an entry of 12 bytes takes 15.6 at most. A copy of one shard in its
// new size is all that growing needs besides.
//
// An entry holds its place, which is the hash times a secret, so that no caller can choose keys
// that all belong in one run: the key follows from it. Products with an odd number are universal in
// their top bits (Dietzfelbinger et al., 1997). Every place is a key's: an empty slot is one with a
// count of 0.
//
// Thread safety: const methods may overlap; any other call needs the object alone.
class KeyCounts {
 public:
  // `skip_bits` top bits of a hash have chosen the shard and are the same for all keys here.
  explicit KeyCounts(int skip_bits, const HashSecret& secret = kHashSecret)
      : skip_bits_(skip_bits), secret_(secret), inverse_(InverseOf(secret.factor)) {}

  int64_t size() const { return size_; }
  int64_t bytes() const { return static_cast<int64_t>(slots_.capacity() * sizeof(Entry)); }

  void Prefetch(uint64_t hash) const {
    if (!slots_.empty()) PrefetchLine(slots_.data() + Home(PlaceOf(hash)));
  }

  // The count of a key, 0 if it has none.
  uint32_t Get(uint64_t hash) const;

  // Adds n, above 0, up to 2^32 - 1; returns the new count.
  uint32_t Add(uint64_t hash, uint32_t n);

  // A count of 0 is none.
  void Set(uint64_t hash, uint32_t count);

  void Erase(uint64_t hash);

  // All entries, in the order of their hashes and in pieces of at most `num_entries`, unless so
  // many agree in kCursorBits bits. Each piece passes over all of them. One begins at `cursor` (0
  // first); returns the next one, below 2^kCursorBits, or -1 at the end.
  int64_t Walk(int64_t cursor, int64_t num_entries, std::vector<int64_t>* keys,
               std::vector<uint32_t>* counts) const;
  static constexpr int kCursorBits = 40;

 private:
  struct Entry {
    uint32_t low;  // the words of the place: a whole one would be aligned to 8 bytes
    uint32_t high;
    uint32_t count;
    uint64_t place() const { return (static_cast<uint64_t>(high) << 32) | low; }
  };
  static_assert(sizeof(Entry) == 12, "an entry takes no more than it needs");

  // Of an odd number, modulo 2^64, by Newton's iteration: each doubles the bits that are right.
  static uint64_t InverseOf(uint64_t factor) {
    uint64_t inverse = factor;  // three
    for (int bits = 3; bits < 64; bits *= 2) inverse *= 2 - factor * inverse;
    return inverse;
  }
  uint64_t PlaceOf(uint64_t hash) const { return (hash ^ secret_.added) * secret_.factor; }
  uint64_t HashOf(const Entry& entry) const { return entry.place() * inverse_ ^ secret_.added; }

  // Where an entry belongs in a table of this many slots: it rises with the place.
  static size_t HomeIn(size_t num_slots, uint64_t place) {
    return static_cast<size_t>((place >> 32) * num_slots >> 32);
  }
  size_t Home(uint64_t place) const { return HomeIn(slots_.size(), place); }
  size_t Next(size_t at) const { return at + 1 == slots_.size() ? 0 : at + 1; }
  // How far behind its home the entry in this slot is.
  size_t Distance(size_t at) const {
    const size_t home = Home(slots_[at].place());
    return at >= home ? at - home : at + slots_.size() - home;
  }
  // The slot of a key, or the one in which it would stand. REQUIRES: there are slots.
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
