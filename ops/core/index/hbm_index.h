// Which row a key has, in a table in a GPU's memory.
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

// Eight lanes read one at once, 16 bytes each: all that lies in a line of the GPU's cache.
//
//   mask | nothing | 10 keys, low word first | 10 rows
struct alignas(128) HbmBucket {
  static constexpr uint32_t kSlots = 10;
  static constexpr uint32_t kAllSlots = (1u << kSlots) - 1;
  // A key that belongs here may stand in the next bucket.
  static constexpr uint32_t kOverflowed = 1u << 31;
  static constexpr uint32_t kFirstKeyWord = 2;
  static constexpr uint32_t kFirstRowWord = kFirstKeyWord + 2 * kSlots;

  uint32_t words[32];  // the first is the mask: slots in use, by bit, and kOverflowed

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

// As kernels see it: what they call is defined in hbm_index_find.h, which they include.
struct HbmIndexView {
  static constexpr int kLanes = 8;

  HbmBucket* buckets = nullptr;  // in the GPU's memory
  uint32_t num_buckets = 0;
  HashSecret secret = {};

  // The row of a key, or kNoHbmRow. By a lane, or by a tile of kLanes that asks for one key.
  KERAS_SPARSE_DEVICE uint32_t Find(int64_t key) const;
  KERAS_SPARSE_DEVICE uint32_t FindByTile(int64_t key) const;

  // The bucket in which a key belongs.
  KERAS_SPARSE_HOST_DEVICE uint32_t HomeOf(int64_t key) const {
    return ReduceHash(static_cast<uint32_t>(SecretHash(HashKey(key), secret)), num_buckets);
  }
};

// An open-addressed table of buckets: a key stands in the bucket where it belongs or, if that was
// full, in one of those after it. Every int64 is a key, for a mask says which slots are in use.
//
// Whoever inserts says which row a key has, so that nothing but the place of a key within the index
// depends on what lanes come first. A slot is claimed by one atomic operation, and no lane waits
// for another, because keys that are inserted are known to be new and distinct.
//
// It grows by half when 85 % of its slots are in use. When keys have gone, the buckets that had
// overflowed still send searches on; once a quarter as many keys have gone as there is room for,
// the index is made anew without such traces. It gives no memory back but by Clear.
//
// All arrays are the GPU's, and work is given without waiting for it, except by Erase.
//
// Thread safety: const methods may overlap; any other call needs the index alone.
class HbmIndex {
 public:
  // Of no keys. The device must outlive it.
  static Status Open(Device* device, HbmIndex* index);

  HbmIndexView view() const;
  int64_t size() const { return size_; }
  int64_t bytes() const { return buckets_.bytes() + num_found_.bytes(); }

  // The row of each key, or kNoHbmRow.
  //   keys, rows  (n), repeats allowed
  void Find(const int64_t* keys, int64_t n, uint32_t* rows) const;

  // Makes room for n more keys: ResourceExhausted if the GPU has none; nothing has changed then.
  // Inserting as many needs no more memory.
  Status Reserve(int64_t n);

  // Gives keys their rows. Errors are those of Reserve.
  //   keys, rows  (n)
  // REQUIRES: the keys are distinct and none is there
  Status Insert(const int64_t* keys, const uint32_t* rows, int64_t n);

  // Drops keys. Waits for the device.
  //   keys  (n)
  //   rows  (n) the row that each had, or kNoHbmRow
  // REQUIRES: the keys are distinct
  Status Erase(const int64_t* keys, int64_t n, uint32_t* rows);

  // Drops all keys, and the memory for them.
  void Clear();

 private:
  // Moves all keys to as many buckets.
  Status Rehash(int64_t num_buckets);

  Device* device_ = nullptr;
  DeviceArray<HbmBucket> buckets_;
  DeviceArray<uint32_t> num_found_;  // (1) by Erase
  int64_t size_ = 0;
  int64_t num_erased_ = 0;  // since the buckets were made
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_INDEX_HBM_INDEX_H_
