// HbmIndex: maps keys to rows, for a table in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_INDEX_HBM_INDEX_H_
#define KERAS_SPARSE_OPS_CORE_INDEX_HBM_INDEX_H_

#include <cstddef>
#include <cstdint>

#include "ops/core/base/hash.h"
#include "ops/core/base/host_device.h"
#include "ops/core/base/secret_hash.h"
#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"

namespace keras_sparse {

// Eight lanes read a bucket at once, 16 bytes each: one line of the GPU's cache.
//
//   mask | unused | 10 keys, low word first | 10 rows
struct alignas(128) HbmBucket {
  static constexpr uint32_t kSlots = 10;
  static constexpr uint32_t kAllSlots = (1u << kSlots) - 1;
  // A key whose home is here may be in the next bucket.
  static constexpr uint32_t kOverflowed = 1u << 31;
  static constexpr uint32_t kFirstKeyWord = 2;
  static constexpr uint32_t kFirstRowWord = kFirstKeyWord + 2 * kSlots;

  uint32_t words[32];  // the first is the mask: used slots, by bit, and kOverflowed

  KERAS_SPARSE_DEVICE uint64_t Key(uint32_t slot) const {
    const uint32_t* key = words + kFirstKeyWord + size_t{2} * slot;
    return key[0] | uint64_t{key[1]} << 32;
  }
  KERAS_SPARSE_DEVICE uint32_t Row(uint32_t slot) const { return words[kFirstRowWord + slot]; }
  KERAS_SPARSE_DEVICE void Set(uint32_t slot, int64_t key, uint32_t row) {
    words[kFirstKeyWord + 2 * slot] = static_cast<uint32_t>(key);
    words[kFirstKeyWord + 2 * slot + 1] = static_cast<uint32_t>(static_cast<uint64_t>(key) >> 32);
    words[kFirstRowWord + slot] = row;
  }
};
static_assert(sizeof(HbmBucket) == 128, "a probe reads one line");

// The index as kernels see it; hbm_index_find.h defines its functions for kernels.
struct HbmIndexView {
  static constexpr int kLanes = 8;

  HbmBucket* buckets = nullptr;  // in the GPU's memory
  uint32_t num_buckets = 0;
  HashSecret secret = {};

  // Returns the row of a key, or kNoHbmRow. Called by a lane, or by a tile of kLanes for one key.
  KERAS_SPARSE_DEVICE uint32_t Find(int64_t key) const;
  KERAS_SPARSE_DEVICE uint32_t FindByTile(int64_t key) const;

  // Returns the home bucket of a key.
  KERAS_SPARSE_HOST_DEVICE uint32_t HomeOf(int64_t key) const {
    return ReduceHash(static_cast<uint32_t>(SecretHash(HashKey(key), secret)), num_buckets);
  }
};

// An open-addressed table of buckets: a key is in its home bucket or, if that was full, in a later
// one. Every int64 is a valid key, because a mask marks the used slots.
//
// The caller of Insert assigns the rows, so that only a key's position within the index depends on
// the order of lanes. One atomic operation claims a slot, and no lane waits for another, because
// inserted keys are known to be new and distinct.
//
// The index grows by half when 85 % of its slots are used. After keys are erased, buckets that have
// overflowed still prolong searches; once a quarter as many keys were erased as the index has room
// for, it is rebuilt without such traces. Only Clear frees memory.
//
// All arrays are in the GPU's memory. Work is enqueued without waiting, except by Erase.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the index.
class HbmIndex {
 public:
  // Creates an empty index. The device must outlive it.
  static Status Open(Device* device, HbmIndex* index);

  HbmIndexView view() const;
  int64_t size() const { return size_; }
  int64_t bytes() const { return buckets_.bytes() + num_found_.bytes(); }

  // Finds the row of each key, or kNoHbmRow.
  //   keys, rows  (n), repeats allowed
  void Find(const int64_t* keys, int64_t n, uint32_t* rows) const;

  // Makes room for n more keys. Returns ResourceExhausted if the GPU has none; nothing has changed
  // then. Inserting as many keys needs no more memory.
  Status Reserve(int64_t n);

  // Inserts keys with their rows. Returns the errors of Reserve.
  //   keys, rows  (n)
  // REQUIRES: the keys are distinct and do not exist
  Status Insert(const int64_t* keys, const uint32_t* rows, int64_t n);

  // Erases keys. Waits for the device.
  //   keys  (n)
  //   rows  (n) receives the row that each key had, or kNoHbmRow
  // REQUIRES: the keys are distinct
  Status Erase(const int64_t* keys, int64_t n, uint32_t* rows);

  // Erases all keys and frees their memory.
  void Clear();

 private:
  // Moves all keys to `num_buckets` buckets.
  Status Rehash(int64_t num_buckets);

  Device* device_ = nullptr;
  DeviceArray<HbmBucket> buckets_;
  DeviceArray<uint32_t> num_found_;  // (1) for Erase
  int64_t size_ = 0;
  int64_t num_erased_ = 0;  // since the buckets were built
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_INDEX_HBM_INDEX_H_
