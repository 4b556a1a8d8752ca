// HashTableTier: the first tier of a dynamic table, with any int64 keys; rows are created on
// demand.
#ifndef KERAS_SPARSE_OPS_CORE_FIRST_TIER_HASH_TABLE_TIER_H_
#define KERAS_SPARSE_OPS_CORE_FIRST_TIER_HASH_TABLE_TIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/arena.h"
#include "ops/core/base/cache_line.h"
#include "ops/core/first_tier/cache_strategy.h"
#include "ops/core/first_tier/first_tier.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/record/record_slabs.h"

namespace keras_sparse {

// Divided into 64 key shards by the top bits of the key's hash, or fewer if its limit is small. A
// shard has an index and its records; shards share only the arena. Each shard has an equal share of
// a limit, and its own order of rows.
class HashTableTier : public FirstTier {
 public:
  // Returns InvalidArgument if there is no such strategy.
  static Status Open(const RecordLayout& layout, const TierLimit& limit,
                     std::unique_ptr<FirstTier>* tier);
  // Creates a tier without a limit.
  explicit HashTableTier(const RecordLayout& layout) : HashTableTier(layout, TierLimit()) {}

  int max_partition_bits() const override { return shard_bits_; }
  void PrefetchIndex(const int64_t* keys, int64_t n) const override;
  void Find(const int64_t* keys, int64_t n, float** records) const override;
  Status FindOrCreate(const int64_t* keys, int64_t n, float** records, bool* created) override;
  void BeginUpdate() override;
  Status DemoteExcess(Executor* executor, const PutRecords& put) override;
  bool Erase(int64_t key) override;
  // Needs the new records beside the old ones until it returns.
  Status Relayout(const RecordLayout& layout, int64_t step, Executor* executor) override;
  Status Clear(const Initializer& initializer, int64_t step, Executor* executor) override;
  int64_t num_rows() const override;
  int64_t bytes() const override;
  int64_t free_bytes() const override;
  int64_t Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
               std::vector<const float*>* records) const override {
    return ScanRows(false, cursor, max_rows, keys, records);
  }
  void TrackChanges() override;
  bool IsChanged(int64_t key) const override;
  int64_t WalkChanged(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                      std::vector<const float*>* records) const override {
    return ScanRows(true, cursor, max_rows, keys, records);
  }

 protected:
  const RecordLayout& layout() const { return layout_; }
  void DropAll() { MakeShards(); }

 private:
  // On its own cache lines, to avoid false sharing between threads.
  struct alignas(kCacheLineBytes) Shard {
    Shard(Arena* arena, int64_t record_bytes, int shard_bits)
        : index(shard_bits), rows(arena, record_bytes) {}
    int64_t bytes() const;
    void MarkChanged(uint32_t row) {
      if (row >= is_changed.size()) is_changed.resize(static_cast<size_t>(rows.capacity()));
      is_changed[row] = true;
    }
    bool IsChanged(uint32_t row) const { return row < is_changed.size() && is_changed[row]; }

    HashIndex index;
    RecordSlabs rows;
    std::unique_ptr<CacheStrategy> order;  // null without a limit
    Arena overflow;                        // of the rows beyond the limit
    int64_t num_started = 0;               // rows created in this update
    std::vector<bool> is_changed;  // by row, may be shorter; empty if changes are not tracked
  };
  // Rows to demote from a shard.
  struct Excess {
    std::vector<int64_t> keys;
    std::vector<uint32_t> rows;
  };

  HashTableTier(const RecordLayout& layout, const TierLimit& limit);

  bool is_limited() const { return limit_.bytes != INT64_MAX; }
  Shard& ShardOf(uint64_t hash) const { return *shards_[TopBits(hash, shard_bits_)]; }
  void MakeShards();
  // Finds the shard and the row of each key, HashIndex::kNoRow for none.
  //   keys, shards, rows  (n), n <= kBlockRows
  void FindRows(const int64_t* keys, int64_t n, Shard** shards, uint32_t* rows) const;
  int64_t ScanRows(bool changed, int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                   std::vector<const float*>* records) const;
  Status Allocate(Shard* shard, uint32_t* row);
  Excess ExcessOf(const Shard& shard, int64_t number) const;
  void Drop(const Excess& excess, Shard* shard);

  RecordLayout layout_;
  TierLimit limit_;
  int shard_bits_;
  uint32_t now_ = 0;  // number of updates begun
  bool tracks_changes_ = false;
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

// The first tier of a table whose rows are used in a GPU's memory. In host memory rows are only in
// transit: imported rows wait here until they are demoted to the GPU's memory, which is the tier
// below. Otherwise it is empty.
class StagingTier : public HashTableTier {
 public:
  explicit StagingTier(const RecordLayout& layout) : HashTableTier(layout) {}

  // Demotes all rows.
  Status DemoteExcess(Executor* executor, const PutRecords& put) override;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FIRST_TIER_HASH_TABLE_TIER_H_
