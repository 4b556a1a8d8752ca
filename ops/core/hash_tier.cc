#include "ops/core/hash_tier.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "ops/core/hash.h"

namespace keras_sparse {

HashTier::HashTier(const RowSchema& schema) : schema_(schema) { MakeShards(); }

void HashTier::MakeShards() {
  shards_.clear();
  arena_ = std::make_unique<Arena>();
  for (int i = 0; i < (1 << kShardBits); ++i) {
    shards_.push_back(std::make_unique<Shard>(arena_.get(), schema_.record_bytes()));
  }
}

void HashTier::PrefetchIndex(const int64_t* keys, int64_t n) const {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = HashKey(keys[i]);
    ShardOf(hash).index.Prefetch(hash);
  }
}

void HashTier::Find(const int64_t* keys, int64_t n, float** records) const {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = HashKey(keys[i]);
    const Shard& shard = ShardOf(hash);
    const uint32_t row = shard.index.Find(hash, keys[i]);
    records[i] = row == HashIndex::kNoRow ? nullptr : shard.rows.Record(row);
  }
}

Status HashTier::FindOrCreate(const int64_t* keys, int64_t n, float** records, bool* created) {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = HashKey(keys[i]);
    Shard& shard = ShardOf(hash);
    uint32_t row = shard.index.Find(hash, keys[i]);
    created[i] = row == HashIndex::kNoRow;
    if (created[i]) {
      const Status allocated = shard.rows.Allocate(&row);
      if (!allocated.ok()) {
        // No row without content stays behind.
        for (int64_t j = 0; j < i; ++j) {
          if (created[j]) Erase(keys[j]);
        }
        return allocated;
      }
      shard.index.Insert(hash, keys[i], row);
    }
    records[i] = shard.rows.Record(row);
  }
  return Status::Ok();
}

bool HashTier::Erase(int64_t key) {
  const uint64_t hash = HashKey(key);
  Shard& shard = ShardOf(hash);
  const uint32_t row = shard.index.Erase(hash, key);
  if (row == HashIndex::kNoRow) return false;
  shard.rows.Free(row);
  return true;
}

Status HashTier::Relayout(const RowSchema& schema, int64_t step, Executor* executor) {
  HashTier laid_out(schema);
  std::mutex mutex;
  Status status;
  executor->ParallelFor(static_cast<int64_t>(shards_.size()), 1000 * (1 + num_rows() / 64),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t s = begin; s < end; ++s) {
                            const Shard& from = *shards_[static_cast<size_t>(s)];
                            Shard& to = *laid_out.shards_[static_cast<size_t>(s)];
                            std::vector<int64_t> keys;
                            std::vector<uint32_t> rows;
                            for (int64_t at = 0; at >= 0;)
                              at = from.index.AppendSegment(at, &keys, &rows);
                            for (size_t i = 0; i < keys.size(); ++i) {
                              uint32_t row = 0;
                              const Status allocated = to.rows.Allocate(&row);
                              if (!allocated.ok()) {
                                std::lock_guard<std::mutex> lock(mutex);
                                status = allocated;
                                return;
                              }
                              to.index.Insert(HashKey(keys[i]), keys[i], row);
                              std::copy_n(from.rows.Record(rows[i]), schema.dim(),
                                          to.rows.Record(row));
                              schema.InitializeSlots(to.rows.Record(row), step);
                            }
                          }
                        });
  KERAS_SPARSE_RETURN_IF_ERROR(status);
  // The shards leave first: they point into the arena they came with.
  shards_ = std::move(laid_out.shards_);
  arena_ = std::move(laid_out.arena_);
  schema_ = schema;
  return Status::Ok();
}

Status HashTier::Clear(const Initializer& /*initializer*/, int64_t /*step*/,
                       Executor* /*executor*/) {
  MakeShards();
  return Status::Ok();
}

int64_t HashTier::num_rows() const {
  int64_t rows = 0;
  for (const auto& shard : shards_) rows += shard->index.size();
  return rows;
}

int64_t HashTier::bytes() const {
  int64_t bytes = arena_->bytes();
  for (const auto& shard : shards_) {
    bytes += shard->index.bytes() + static_cast<int64_t>(sizeof(Shard));
  }
  return bytes;
}

int64_t HashTier::Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                       std::vector<const float*>* records) const {
  // A cursor is a shard and a position in its index.
  auto shard = static_cast<size_t>(cursor >> 32);
  int64_t position = cursor & 0xFFFFFFFF;
  std::vector<uint32_t> rows;
  while (shard < shards_.size() &&
         static_cast<int64_t>(keys->size()) < std::max<int64_t>(1, max_rows)) {
    rows.clear();
    position = shards_[shard]->index.AppendSegment(position, keys, &rows);
    for (const uint32_t row : rows) records->push_back(shards_[shard]->rows.Record(row));
    if (position < 0) {
      ++shard;
      position = 0;
    }
  }
  if (shard >= shards_.size()) return -1;
  return (static_cast<int64_t>(shard) << 32) | position;
}

}  // namespace keras_sparse
