// HashIndex: maps keys to rows, for one key shard of a dynamic table.
#ifndef KERAS_SPARSE_OPS_CORE_INDEX_HASH_INDEX_H_
#define KERAS_SPARSE_OPS_CORE_INDEX_HASH_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/cache_line.h"
#include "ops/core/base/hash.h"
#include "ops/core/base/secret_hash.h"
#include "ops/core/math/prefetch.h"

namespace keras_sparse {

// An extendible hash table (Fagin et al., 1979): a directory of segments, each an open-addressed
// table of cache-line buckets. A probe costs one cache miss, and half of another for the directory
// once the directory outgrows the cache.
//
// A full segment grows by an eighth until it has 512 buckets, then splits in two. So no insertion
// moves more than a few thousand keys, however large the table is. Over 60 % of the slots of a
// large index are used. A segment is instead rebuilt in the size that its keys need if it is full
// of traces of erased keys, or has lost most of its keys.
//
// Every int64 is a valid key, because a bucket stores its number of keys and reserves none.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the index.
class HashIndex {
  struct Bucket;

 public:
  static constexpr uint32_t kNoRow = 0xFFFFFFFFu;

  // The top `skip_bits` bits of a hash have selected the shard and are the same for all keys here.
  // Up to `expected_keys` keys can be inserted with little growth.
  explicit HashIndex(int skip_bits, int64_t expected_keys = 0);

  int64_t size() const { return size_; }
  int64_t bytes() const;

  // Where the search for a key starts; valid until the index changes.
  class Start {
    friend class HashIndex;
    const Bucket* buckets_;  // of the segment
    uint32_t num_buckets_;
    uint32_t at_;  // the first bucket to search
  };
  Start StartOf(uint64_t hash) const {
    const Segment& segment = directory_[DirectorySlot(hash)];
    Start start;
    start.buckets_ = segment.buckets;
    start.num_buckets_ = segment.num_buckets;
    start.at_ = HomeOf(hash, segment.num_buckets);
    return start;
  }

  // Prefetches the cache line in which a search will start.
  void Prefetch(uint64_t hash) const {
    const Start start = StartOf(hash);
    PrefetchLine(start.buckets_ + start.at_);
  }

  // Returns the row of a key, or kNoRow. For many keys, compute all starts first: each reads the
  // directory, which exceeds the first-level cache, and the misses then overlap.
  uint32_t Find(uint64_t hash, int64_t key) const { return FindFrom(StartOf(hash), key); }
  static uint32_t FindFrom(const Start& start, int64_t key) {
    uint32_t at = start.at_;
    while (true) {
      const Bucket& bucket = start.buckets_[at];
      // Compares all slots before one branch, because a branch on a key's slot in its bucket would
      // be mispredicted half of the time.
      uint32_t matches = 0;
      for (uint32_t i = 0; i < kBucketSlots; ++i) {
        matches |= static_cast<uint32_t>(bucket.keys[i] == key) << i;
      }
      matches &= (1u << bucket.count) - 1;
      if (matches != 0) return bucket.rows[static_cast<size_t>(__builtin_ctz(matches))];
      if (!bucket.overflowed) return kNoRow;
      if (++at == start.num_buckets_) at = 0;
    }
  }

  // Finds which keys exist.
  //   keys, found  (n)
  void Contains(const int64_t* keys, int64_t n, bool* found) const;

  // Prefetches the cache lines of the next few of `n` keys, which makes a loop over keys several
  // times as fast once the index outgrows the cache. Call it for each `i` in order, before key `i`
  // is processed.
  void PrefetchAhead(const int64_t* keys, int64_t n, int64_t i) const;

  // REQUIRES: the key does not exist
  void Insert(uint64_t hash, int64_t key, uint32_t row);

  // Sets the row of a new or existing key. Returns the previous row, or kNoRow.
  uint32_t Exchange(uint64_t hash, int64_t key, uint32_t row);

  // Returns the row that the key had, or kNoRow.
  uint32_t Erase(uint64_t hash, int64_t key);

  // Appends keys and rows in the order of their hashes, for walking the index in pieces. A piece is
  // a segment and starts at `position` (first 0). Returns the next position, or -1.
  int64_t AppendSegment(int64_t position, std::vector<int64_t>* keys,
                        std::vector<uint32_t>* rows) const;

  // Appends segments until `keys` has `max_keys` keys or no segment is left.
  int64_t AppendSegments(int64_t position, int64_t max_keys, std::vector<int64_t>* keys,
                         std::vector<uint32_t>* rows) const;

 private:
  static constexpr uint32_t kBucketSlots = 5;
  static constexpr uint32_t kMaxBuckets = 512;
  // About one erased key in `kErasedPerSlot` was in a bucket that has overflowed.
  static constexpr uint32_t kErasedPerSlot = 4;

  struct alignas(kCacheLineBytes) Bucket {
    std::array<int64_t, kBucketSlots> keys;
    std::array<uint32_t, kBucketSlots> rows;
    uint16_t count;
    uint16_t overflowed;  // a key whose home is here may be in the next bucket
  };
  static_assert(sizeof(Bucket) == kCacheLineBytes, "a probe reads one cache line");

  // The directory's copy of a segment: everything a probe needs, without a second pointer to
  // follow.
  struct Segment {
    Bucket* buckets;
    uint32_t num_buckets;
    uint32_t id;  // its position in owners_
  };
  struct Owner {
    std::unique_ptr<Bucket[]> buckets;
    uint32_t num_keys = 0;
    uint32_t num_erased = 0;  // since the segment was built
    // Slots in use, counting a bucket that has overflowed as full: searches still pass through it
    // after its keys are erased. Always fewer than all slots, so at least one bucket has not
    // overflowed and ends each search.
    uint32_t num_used = 0;
    int depth = 0;  // number of prefix bits that its keys share
  };

  size_t DirectorySlot(uint64_t hash) const {
    return depth_ == 0 ? 0 : static_cast<size_t>((hash << skip_bits_) >> (64 - depth_));
  }
  // Returns the home bucket of a key.
  static uint32_t HomeOf(uint64_t hash, uint32_t num_buckets) {
    return ReduceHash(static_cast<uint32_t>(SecretHash(hash)), num_buckets);
  }
  // Returns whether a segment must grow before it takes another key. The decision does not depend
  // on the secret, because memory follows from it. The exception: keys that are inserted
  // and erased until nearly all buckets have overflowed.
  static bool IsFull(const Owner& owner, uint32_t num_buckets) {
    return owner.num_keys + owner.num_erased / kErasedPerSlot >= Room(num_buckets) ||
           owner.num_used >= num_buckets * kBucketSlots - 1;
  }
  // Returns how many more slots are in use.
  static uint32_t Place(Bucket* buckets, uint32_t num_buckets, uint64_t hash, int64_t key,
                        uint32_t row);
  static uint32_t Room(uint32_t num_buckets) { return num_buckets * kBucketSlots * 4 / 5; }
  // An eighth more than the keys need at once.
  static uint32_t BucketsFor(uint32_t num_keys) { return num_keys / 4 * 9 / 8 + 1; }
  // Makes room for one more key in the segment of `hash`.
  void Grow(uint64_t hash);
  // Rebuilds the segment of `hash` in the size that its keys need.
  void Rebuild(uint64_t hash);
  bool MaySplit(const Owner& owner) const;
  void Split(uint64_t hash);
  // Each slot is written twice; segments do not move.
  void DoubleDirectory();
  // Writes owner `id` into all directory slots with the prefix of `hash`.
  void Publish(uint64_t hash, uint32_t id, uint32_t num_buckets);

  int skip_bits_;
  int depth_ = 0;
  int64_t size_ = 0;
  std::vector<Segment> directory_;
  std::vector<Owner> owners_;
  int64_t num_buckets_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_INDEX_HASH_INDEX_H_
