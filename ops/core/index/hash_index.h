// Which row a key has: the index of one key shard of a dynamic table.
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
// once that outgrows the cache.
//
// A full segment grows by an eighth until it has 512 buckets, then splits in two, so no insertion
// ever moves more than a few thousand keys however large the table is, and over 60 % of the slots
// of a large index are used. One that is full of the traces of erased keys, or has lost most of its
// keys, is made anew instead, in the size that its keys need.
//
// Every int64 is a key: how full a bucket is stands in a count, not in a reserved key.
//
// Thread safety: const methods may overlap; any other call needs the index alone.
class HashIndex {
  struct Bucket;

 public:
  static constexpr uint32_t kNoRow = 0xFFFFFFFFu;

  // `skip_bits` top bits of a hash have chosen the shard and are the same for all keys here. Up to
  // `expected_keys` of them are taken without growing much.
  explicit HashIndex(int skip_bits, int64_t expected_keys = 0);

  int64_t size() const { return size_; }
  int64_t bytes() const;

  // Where the search for a key starts, as long as the index stays as it is.
  class Start {
    friend class HashIndex;
    const Bucket* buckets_;  // of the segment
    uint32_t num_buckets_;
    uint32_t at_;  // the bucket to start with
  };
  Start StartOf(uint64_t hash) const {
    const Segment& segment = directory_[DirectorySlot(hash)];
    Start start;
    start.buckets_ = segment.buckets;
    start.num_buckets_ = segment.num_buckets;
    start.at_ = HomeOf(hash, segment.num_buckets);
    return start;
  }

  // Asks for the cache line in which a search will start.
  void Prefetch(uint64_t hash) const {
    const Start start = StartOf(hash);
    PrefetchLine(start.buckets_ + start.at_);
  }

  // The row of a key, or kNoRow. One who looks for many keys takes the starts of all first: each
  // reads the directory, which the first-level cache does not hold, and the misses then overlap.
  uint32_t Find(uint64_t hash, int64_t key) const { return FindFrom(StartOf(hash), key); }
  static uint32_t FindFrom(const Start& start, int64_t key) {
    uint32_t at = start.at_;
    while (true) {
      const Bucket& bucket = start.buckets_[at];
      // All slots are compared before one branch: where a key stands in its bucket is a coin toss
      // that the processor would mispredict.
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

  // Whether each key is there.
  //   keys, found  (n)
  void Contains(const int64_t* keys, int64_t n, bool* found) const;

  // Asks for the cache lines in which the next few of `n` keys will be looked for, which makes a
  // loop over keys several times as fast once the index outgrows the cache. To be called with each
  // `i` in turn, before what is done with key `i`.
  void PrefetchAhead(const int64_t* keys, int64_t n, int64_t i) const;

  // REQUIRES: the key is not there.
  void Insert(uint64_t hash, int64_t key, uint32_t row);

  // Gives a key a row, whether it is there or not. Returns the row it had, or kNoRow.
  uint32_t Exchange(uint64_t hash, int64_t key, uint32_t row);

  // Returns the row that the key had, or kNoRow.
  uint32_t Erase(uint64_t hash, int64_t key);

  // Keys and rows in the order of their hashes, for walking the index in pieces. A piece, a
  // segment, begins at `position` (0 first); what it holds is appended. Returns the next position,
  // or -1.
  int64_t AppendSegment(int64_t position, std::vector<int64_t>* keys,
                        std::vector<uint32_t>* rows) const;

  // The same for segment after segment, until there are `max_keys` in `keys` or no more.
  int64_t AppendSegments(int64_t position, int64_t max_keys, std::vector<int64_t>* keys,
                         std::vector<uint32_t>* rows) const;

 private:
  static constexpr uint32_t kBucketSlots = 5;
  static constexpr uint32_t kMaxBuckets = 512;
  // About one erased key in `kErasedPerSlot` was of a bucket that has overflowed.
  static constexpr uint32_t kErasedPerSlot = 4;

  struct alignas(kCacheLineBytes) Bucket {
    std::array<int64_t, kBucketSlots> keys;
    std::array<uint32_t, kBucketSlots> rows;
    uint16_t count;
    uint16_t overflowed;  // a key that belongs here may stand in the next bucket
  };
  static_assert(sizeof(Bucket) == kCacheLineBytes, "a probe reads one cache line");

  // As the directory keeps it: all that a probe needs, so that it follows no second pointer.
  struct Segment {
    Bucket* buckets;
    uint32_t num_buckets;
    uint32_t id;  // its place in owners_
  };
  struct Owner {
    std::unique_ptr<Bucket[]> buckets;
    uint32_t num_keys = 0;
    uint32_t num_erased = 0;  // since the segment was made
    // Slots in use, where a bucket that has overflowed counts as full: it stays on the way of
    // searches when its keys are erased. Fewer than there are slots, so one bucket at least has not
    // overflowed: there each search ends.
    uint32_t num_used = 0;
    int depth = 0;  // how many prefix bits its keys share
  };

  size_t DirectorySlot(uint64_t hash) const {
    return depth_ == 0 ? 0 : static_cast<size_t>((hash << skip_bits_) >> (64 - depth_));
  }
  // The bucket in which a key belongs.
  static uint32_t HomeOf(uint64_t hash, uint32_t num_buckets) {
    return ReduceHash(static_cast<uint32_t>(SecretHash(hash)), num_buckets);
  }
  // Whether a segment must grow before it takes another key. By numbers that no secret decides, as
  // memory follows from it; but for keys that come and go so that hardly a bucket has not
  // overflowed.
  static bool IsFull(const Owner& owner, uint32_t num_buckets) {
    return owner.num_keys + owner.num_erased / kErasedPerSlot >= Room(num_buckets) ||
           owner.num_used >= num_buckets * kBucketSlots - 1;
  }
  // Returns how many slots more are in use.
  static uint32_t Place(Bucket* buckets, uint32_t num_buckets, uint64_t hash, int64_t key,
                        uint32_t row);
  static uint32_t Room(uint32_t num_buckets) { return num_buckets * kBucketSlots * 4 / 5; }
  // An eighth more than the keys need at once.
  static uint32_t BucketsFor(uint32_t num_keys) { return num_keys / 4 * 9 / 8 + 1; }
  // Makes room for one more key in the segment of `hash`.
  void Grow(uint64_t hash);
  // Makes the segment of `hash` anew, in the size that its keys need.
  void Rebuild(uint64_t hash);
  bool MaySplit(const Owner& owner) const;
  void Split(uint64_t hash);
  // Each slot is written twice; segments stay where they are.
  void DoubleDirectory();
  // Writes owner `id` into every directory slot of the prefix that `hash` has.
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
