#include "ops/core/index/hash_index.h"

#include <algorithm>
#include <new>
#include <utility>

namespace keras_sparse {
namespace {

// Keys whose cache lines are prefetched at once.
constexpr int64_t kSlotsAhead = 16;
// Keys per segment on average: the fullest one still has room for random variation.
constexpr int64_t kMostExpected = 1536;
// Buckets of a segment that is not shrunk when its keys are erased.
constexpr uint32_t kLeastShrunk = 8;

}  // namespace

HashIndex::HashIndex(int skip_bits, int64_t expected_keys) : skip_bits_(skip_bits) {
  while (expected_keys >> depth_ > kMostExpected) ++depth_;
  const auto num_buckets = BucketsFor(static_cast<uint32_t>(expected_keys >> depth_));
  for (uint32_t id = 0; id < uint32_t{1} << depth_; ++id) {
    Owner owner;
    owner.buckets = std::make_unique<Bucket[]>(num_buckets);
    owner.depth = depth_;
    directory_.push_back({owner.buckets.get(), num_buckets, id});
    owners_.push_back(std::move(owner));
    num_buckets_ += num_buckets;
  }
}

int64_t HashIndex::bytes() const {
  return num_buckets_ * static_cast<int64_t>(sizeof(Bucket)) +
         static_cast<int64_t>(directory_.capacity() * sizeof(Segment)) +
         static_cast<int64_t>(owners_.capacity() * sizeof(Owner));
}

uint32_t HashIndex::Place(Bucket* buckets, uint32_t num_buckets, uint64_t hash, int64_t key,
                          uint32_t row) {
  uint32_t at = HomeOf(hash, num_buckets);
  while (buckets[at].count == kBucketSlots) {
    buckets[at].overflowed = 1;
    if (++at == num_buckets) at = 0;
  }
  Bucket& bucket = buckets[at];
  bucket.keys[bucket.count] = key;
  bucket.rows[bucket.count] = row;
  ++bucket.count;
  return bucket.overflowed ? 0 : 1;
}

void HashIndex::Insert(uint64_t hash, int64_t key, uint32_t row) {
  while (true) {
    const Segment& segment = directory_[DirectorySlot(hash)];
    Owner& owner = owners_[segment.id];
    if (!IsFull(owner, segment.num_buckets)) {
      owner.num_used += Place(segment.buckets, segment.num_buckets, hash, key, row);
      ++owner.num_keys;
      ++size_;
      return;
    }
    Grow(hash);
  }
}

uint32_t HashIndex::Exchange(uint64_t hash, int64_t key, uint32_t row) {
  const Segment& segment = directory_[DirectorySlot(hash)];
  uint32_t at = HomeOf(hash, segment.num_buckets);
  while (true) {
    Bucket& bucket = segment.buckets[at];
    for (uint32_t i = 0; i < bucket.count; ++i) {
      if (bucket.keys[i] == key) return std::exchange(bucket.rows[i], row);
    }
    if (!bucket.overflowed) break;
    if (++at == segment.num_buckets) at = 0;
  }
  Insert(hash, key, row);
  return kNoRow;
}

uint32_t HashIndex::Erase(uint64_t hash, int64_t key) {
  const Segment& segment = directory_[DirectorySlot(hash)];
  uint32_t at = HomeOf(hash, segment.num_buckets);
  while (true) {
    Bucket& bucket = segment.buckets[at];
    for (uint32_t i = 0; i < bucket.count; ++i) {
      if (bucket.keys[i] != key) continue;
      const uint32_t row = bucket.rows[i];
      // `overflowed` stays set: keys that overflowed from here are still in later buckets.
      --bucket.count;
      bucket.keys[i] = bucket.keys[bucket.count];
      bucket.rows[i] = bucket.rows[bucket.count];
      Owner& owner = owners_[segment.id];
      --owner.num_keys;
      ++owner.num_erased;
      if (!bucket.overflowed) --owner.num_used;
      --size_;
      if (owner.num_keys < Room(segment.num_buckets) / 4 && segment.num_buckets > kLeastShrunk) {
        Rebuild(hash);
      }
      return row;
    }
    if (!bucket.overflowed) return kNoRow;
    if (++at == segment.num_buckets) at = 0;
  }
}

void HashIndex::Publish(uint64_t hash, uint32_t id, uint32_t num_buckets) {
  const size_t span = size_t{1} << (depth_ - owners_[id].depth);
  const size_t first = DirectorySlot(hash) / span * span;
  std::fill_n(directory_.begin() + static_cast<std::ptrdiff_t>(first), span,
              Segment{owners_[id].buckets.get(), num_buckets, id});
}

void HashIndex::Grow(uint64_t hash) {
  const Owner& owner = owners_[directory_[DirectorySlot(hash)].id];
  if (owner.num_keys >= Room(kMaxBuckets) && MaySplit(owner)) {
    Split(hash);
  } else {
    Rebuild(hash);
  }
}

void HashIndex::Rebuild(uint64_t hash) {
  const Segment old = directory_[DirectorySlot(hash)];
  Owner& owner = owners_[old.id];
  const uint32_t num_buckets = BucketsFor(owner.num_keys);
  std::unique_ptr<Bucket[]> buckets(new (std::nothrow) Bucket[num_buckets]());
  if (buckets == nullptr) {
    if (num_buckets < old.num_buckets) return;  // a failed shrink changes nothing
    throw std::bad_alloc();
  }
  owner.num_used = owner.num_erased = 0;
  for (uint32_t b = 0; b < old.num_buckets; ++b) {
    const Bucket& bucket = old.buckets[b];
    for (uint32_t i = 0; i < bucket.count; ++i) {
      owner.num_used += Place(buckets.get(), num_buckets, HashKey(bucket.keys[i]), bucket.keys[i],
                              bucket.rows[i]);
    }
  }
  num_buckets_ += int64_t{num_buckets} - old.num_buckets;
  owner.buckets = std::move(buckets);
  Publish(hash, old.id, num_buckets);
}

bool HashIndex::MaySplit(const Owner& owner) const {
  // Keys chosen to share a long prefix of their hash would double the directory to no effect; their
  // segment grows instead.
  return owner.depth < depth_ || (int64_t{64} << (depth_ + 1)) <= size_;
}

void HashIndex::DoubleDirectory() {
  std::vector<Segment> doubled;
  doubled.reserve(directory_.size() * 2);
  for (const Segment& segment : directory_) doubled.insert(doubled.end(), 2, segment);
  directory_ = std::move(doubled);
  ++depth_;
}

void HashIndex::Split(uint64_t hash) {
  const Segment old = directory_[DirectorySlot(hash)];
  if (owners_[old.id].depth == depth_) DoubleDirectory();
  const auto new_id = static_cast<uint32_t>(owners_.size());
  owners_.emplace_back();
  const std::unique_ptr<Bucket[]> old_buckets = std::move(owners_[old.id].buckets);
  const int depth = ++owners_[old.id].depth;
  owners_[new_id].depth = depth;
  const uint64_t bit = uint64_t{1} << (64 - skip_bits_ - depth);
  const std::array<uint32_t, 2> ids = {old.id, new_id};

  for (const uint32_t id : ids) owners_[id].num_keys = 0;
  for (uint32_t b = 0; b < old.num_buckets; ++b) {
    const Bucket& bucket = old_buckets[b];
    for (uint32_t i = 0; i < bucket.count; ++i) {
      ++owners_[ids[(HashKey(bucket.keys[i]) & bit) != 0]].num_keys;
    }
  }
  std::array<uint32_t, 2> num_buckets;
  for (size_t half = 0; half < 2; ++half) {
    Owner& owner = owners_[ids[half]];
    num_buckets[half] = BucketsFor(owner.num_keys);
    owner.buckets = std::make_unique<Bucket[]>(num_buckets[half]);
    owner.num_used = owner.num_erased = 0;
    num_buckets_ += num_buckets[half];
  }
  num_buckets_ -= old.num_buckets;
  for (uint32_t b = 0; b < old.num_buckets; ++b) {
    const Bucket& bucket = old_buckets[b];
    for (uint32_t i = 0; i < bucket.count; ++i) {
      const uint64_t key_hash = HashKey(bucket.keys[i]);
      const size_t half = (key_hash & bit) != 0;
      Owner& owner = owners_[ids[half]];
      owner.num_used +=
          Place(owner.buckets.get(), num_buckets[half], key_hash, bucket.keys[i], bucket.rows[i]);
    }
  }
  Publish(hash & ~bit, old.id, num_buckets[0]);
  Publish(hash | bit, new_id, num_buckets[1]);
}

int64_t HashIndex::AppendSegment(int64_t position, std::vector<int64_t>* keys,
                                 std::vector<uint32_t>* rows) const {
  if (position >= static_cast<int64_t>(directory_.size())) return -1;
  const Segment& segment = directory_[static_cast<size_t>(position)];
  std::vector<std::pair<uint64_t, uint32_t>> found;
  found.reserve(owners_[segment.id].num_keys);
  for (uint32_t b = 0; b < segment.num_buckets; ++b) {
    const Bucket& bucket = segment.buckets[b];
    for (uint32_t i = 0; i < bucket.count; ++i) {
      found.emplace_back(HashKey(bucket.keys[i]), bucket.rows[i]);
    }
  }
  std::sort(found.begin(), found.end());
  for (const auto& [hash, row] : found) {
    keys->push_back(KeyOfHash(hash));
    rows->push_back(row);
  }
  const int64_t next = position + (int64_t{1} << (depth_ - owners_[segment.id].depth));
  return next < static_cast<int64_t>(directory_.size()) ? next : -1;
}

int64_t HashIndex::AppendSegments(int64_t position, int64_t max_keys, std::vector<int64_t>* keys,
                                  std::vector<uint32_t>* rows) const {
  while (position >= 0 && static_cast<int64_t>(keys->size()) < max_keys) {
    position = AppendSegment(position, keys, rows);
  }
  return position;
}

void HashIndex::PrefetchAhead(const int64_t* keys, int64_t n, int64_t i) const {
  if (i == 0) {
    for (int64_t first = 0; first < std::min(n, kSlotsAhead); ++first)
      Prefetch(HashKey(keys[first]));
  }
  if (i + kSlotsAhead < n) Prefetch(HashKey(keys[i + kSlotsAhead]));
}

void HashIndex::Contains(const int64_t* keys, int64_t n, bool* found) const {
  for (int64_t i = 0; i < n; ++i) {
    PrefetchAhead(keys, n, i);
    found[i] = Find(HashKey(keys[i]), keys[i]) != kNoRow;
  }
}

}  // namespace keras_sparse
