// HashTier: walks over its rows, and which of them have changed.
#include <algorithm>

#include "ops/core/base/hash.h"
#include "ops/core/first_tier/hash_tier.h"

namespace keras_sparse {

void HashTier::TrackChanges() {
  tracks_changes_ = true;
  for (const auto& shard : shards_) shard->is_changed = std::vector<bool>();
}

bool HashTier::IsChanged(int64_t key) const {
  const uint64_t hash = HashKey(key);
  const Shard& shard = ShardOf(hash);
  const uint32_t row = shard.index.Find(hash, key);
  return row != HashIndex::kNoRow && shard.IsChanged(row);
}

int64_t HashTier::WalkRows(bool changed, int64_t cursor, int64_t max_rows,
                           std::vector<int64_t>* keys, std::vector<const float*>* records) const {
  // A cursor is a shard and a position in its index.
  auto shard = static_cast<size_t>(cursor >> 32);
  int64_t position = cursor & 0xFFFFFFFF;
  std::vector<uint32_t> rows;
  while (shard < shards_.size() &&
         static_cast<int64_t>(keys->size()) < std::max<int64_t>(1, max_rows)) {
    rows.clear();
    const size_t begin = keys->size();
    size_t end = begin;
    position = shards_[shard]->index.AppendSegment(position, keys, &rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (changed && !shards_[shard]->IsChanged(rows[i])) continue;
      (*keys)[end++] = (*keys)[begin + i];
      records->push_back(shards_[shard]->rows.Record(rows[i]));
    }
    keys->resize(end);
    if (position < 0) {
      ++shard;
      position = 0;
    }
  }
  if (shard >= shards_.size()) return -1;
  return (static_cast<int64_t>(shard) << 32) | position;
}

}  // namespace keras_sparse
