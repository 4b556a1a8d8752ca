// The first tier of a dynamic table: any int64 key, rows appear as they are created.
#ifndef KERAS_SPARSE_OPS_CORE_HASH_TIER_H_
#define KERAS_SPARSE_OPS_CORE_HASH_TIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/arena.h"
#include "ops/core/first_tier.h"
#include "ops/core/hash_index.h"
#include "ops/core/row_storage.h"

namespace keras_sparse {

// Cut into 64 key shards by the top bits of the key's hash; a shard has an index and its records,
// and nothing in it is shared but the arena.
class HashTier : public FirstTier {
 public:
  explicit HashTier(const RowSchema& schema);

  int max_part_bits() const override { return kShardBits; }
  bool Accepts(int64_t /*key*/) const override { return true; }
  void PrefetchIndex(const int64_t* keys, int64_t n) const override;
  void Find(const int64_t* keys, int64_t n, float** records) const override;
  Status FindOrCreate(const int64_t* keys, int64_t n, float** records, bool* created) override;
  bool Erase(int64_t key) override;
  // Needs the new records beside the old ones until it returns.
  Status Relayout(const RowSchema& schema, int64_t step, Executor* executor) override;
  Status Clear(const Initializer& initializer, int64_t step, Executor* executor) override;
  int64_t num_rows() const override;
  int64_t bytes() const override;
  int64_t Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
               std::vector<const float*>* records) const override;

 private:
  static constexpr int kShardBits = 6;

  // On its own cache lines, so that threads at work on neighbours do not slow each other.
  struct alignas(kCacheLineBytes) Shard {
    Shard(Arena* arena, int64_t record_bytes) : index(kShardBits), rows(arena, record_bytes) {}
    HashIndex index;
    RowStorage rows;
  };

  Shard& ShardOf(uint64_t hash) const { return *shards_[TopBits(hash, kShardBits)]; }
  void MakeShards();

  RowSchema schema_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_HASH_TIER_H_
