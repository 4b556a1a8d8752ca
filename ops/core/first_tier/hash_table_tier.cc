#include "ops/core/first_tier/hash_table_tier.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ops/core/base/bytes.h"
#include "ops/core/base/hash.h"
#include "ops/core/base/mutex.h"
#include "ops/core/math/prefetch.h"
#include "ops/core/record/row_uses.h"

namespace keras_sparse {
namespace {

constexpr int kMaxTierShardBits = 6;
// With a smaller share of a limit, a shard's overhead would exceed its rows.
constexpr int64_t kLeastShardBytes = int64_t{256} << 10;
constexpr int64_t kNanosecondsPerTierRow = 20;

}  // namespace

Status HashTableTier::Open(const RecordLayout& layout, const TierLimit& limit,
                           std::unique_ptr<FirstTier>* tier) {
  std::unique_ptr<CacheStrategy> order;
  KERAS_SPARSE_RETURN_IF_ERROR(CacheStrategy::Create(limit.strategy, &order));
  tier->reset(new HashTableTier(layout, limit));
  return Status::Ok();
}

HashTableTier::HashTableTier(const RecordLayout& layout, const TierLimit& limit)
    : layout_(layout), limit_(limit), shard_bits_(kMaxTierShardBits) {
  while (shard_bits_ > 0 && (limit.bytes >> shard_bits_) < kLeastShardBytes) --shard_bits_;
  MakeShards();
}

void HashTableTier::MakeShards() {
  shards_.clear();
  arena_ = std::make_unique<Arena>();
  for (int i = 0; i < (1 << shard_bits_); ++i) {
    shards_.push_back(std::make_unique<Shard>(arena_.get(), layout_.record_bytes(), shard_bits_));
    if (is_limited()) (void)CacheStrategy::Create(limit_.strategy, &shards_.back()->order);
  }
}

int64_t HashTableTier::Shard::bytes() const {
  return index.bytes() + static_cast<int64_t>(sizeof(Shard) + is_changed.capacity() / 8) +
         (order == nullptr ? 0 : order->bytes() + overflow.bytes());
}

void HashTableTier::PrefetchIndex(const int64_t* keys, int64_t n) const {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = HashKey(keys[i]);
    ShardOf(hash).index.Prefetch(hash);
  }
}

void HashTableTier::FindRows(const int64_t* keys, int64_t n, Shard** shards, uint32_t* rows) const {
  // Each step runs for all keys, so that their cache misses overlap.
  std::array<HashIndex::Start, kBlockRows> starts;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = HashKey(keys[i]);
    shards[i] = &ShardOf(hash);
    starts[static_cast<size_t>(i)] = shards[i]->index.StartOf(hash);
  }
  for (int64_t i = 0; i < n; ++i) {
    rows[i] = HashIndex::FindFrom(starts[static_cast<size_t>(i)], keys[i]);
  }
}

void HashTableTier::Find(const int64_t* keys, int64_t n, float** records) const {
  std::array<Shard*, kBlockRows> shards;
  std::array<uint32_t, kBlockRows> rows;
  for (int64_t begin = 0; begin < n; begin += kBlockRows) {
    const int64_t size = std::min(kBlockRows, n - begin);
    FindRows(keys + begin, size, shards.data(), rows.data());
    for (size_t i = 0; i < static_cast<size_t>(size); ++i) {
      records[begin + static_cast<int64_t>(i)] =
          rows[i] == HashIndex::kNoRow ? nullptr : shards[i]->rows.Record(rows[i]);
    }
  }
}

Status HashTableTier::FindOrCreate(const int64_t* keys, int64_t n, float** records, bool* created) {
  std::array<Shard*, kBlockRows> shards;
  std::array<uint32_t, kBlockRows> rows;
  FindRows(keys, n, shards.data(), rows.data());
  for (int64_t i = 0; i < n; ++i) {
    Shard* shard = shards[static_cast<size_t>(i)];
    uint32_t row = rows[static_cast<size_t>(i)];
    created[i] = row == HashIndex::kNoRow;
    if (created[i]) {
      const Status allocated = Allocate(shard, &row);
      if (!allocated.ok()) {
        // Leave no row without content.
        for (int64_t j = 0; j < i; ++j) {
          if (created[j]) Erase(keys[j]);
        }
        return allocated;
      }
      shard->index.Insert(HashKey(keys[i]), keys[i], row);
    } else if (shard->order != nullptr) {
      shard->order->Use(row, now_);
    }
    if (tracks_changes_) shard->MarkChanged(row);
    records[i] = shard->rows.Record(row);
  }
  return Status::Ok();
}

Status HashTableTier::Allocate(Shard* shard, uint32_t* row) {
  RecordSlabs& rows = shard->rows;
  if (shard->order == nullptr) return rows.Allocate(row);
  if (rows.is_full() && !rows.is_limited()) {
    // An index grows and shrinks a little as rows are created and erased.
    const int64_t beside = shard->bytes() + shard->index.bytes() / 8;
    const int64_t rows_bytes = rows.capacity() * layout_.record_bytes() + rows.next_chunk_bytes();
    if (beside + rows_bytes > limit_.bytes >> shard_bits_) rows.Limit(&shard->overflow);
  }
  const int64_t capacity = rows.capacity();
  KERAS_SPARSE_RETURN_IF_ERROR(rows.Allocate(row));
  if (rows.capacity() != capacity) shard->order->Resize(rows.capacity());
  shard->order->Start(*row, now_);
  ++shard->num_started;
  return Status::Ok();
}

void HashTableTier::BeginUpdate() {
  if (!is_limited()) return;
  ++now_;
  for (const auto& shard : shards_) shard->num_started = 0;
}

HashTableTier::Excess HashTableTier::ExcessOf(const Shard& shard, int64_t number) const {
  Excess excess;
  if (!shard.rows.is_limited()) return excess;
  const int64_t kept = NumRowsKept(shard.rows.size(), shard.rows.limit(), shard.num_started, number,
                                   static_cast<int64_t>(shards_.size()));
  if (kept == shard.rows.size()) return excess;
  struct Candidate {
    uint64_t score;
    int64_t key;
    uint32_t row;
  };
  std::vector<int64_t> keys;
  std::vector<uint32_t> rows;
  for (int64_t at = 0; at >= 0;) at = shard.index.AppendSegment(at, &keys, &rows);
  std::vector<Candidate> candidates;
  candidates.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    candidates.push_back({shard.order->Score(rows[i], now_), keys[i], rows[i]});
  }
  const auto end = candidates.begin() + (shard.rows.size() - kept);
  std::nth_element(candidates.begin(), end, candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.score != b.score ? a.score < b.score : a.key < b.key;
                   });
  for (auto each = candidates.begin(); each != end; ++each) {
    excess.keys.push_back(each->key);
    excess.rows.push_back(each->row);
  }
  return excess;
}

void HashTableTier::Drop(const Excess& excess, Shard* shard) {
  for (size_t i = 0; i < excess.keys.size(); ++i) {
    (void)shard->index.Erase(HashKey(excess.keys[i]), excess.keys[i]);
    shard->rows.Free(excess.rows[i]);
  }
  RecordSlabs& rows = shard->rows;
  if (rows.capacity() <= rows.limit()) return;
  // The remaining rows beyond the limit move into the space that is now free below it.
  rows.CloseOverflow();
  std::vector<int64_t> keys;
  std::vector<uint32_t> held;
  for (int64_t at = 0; at >= 0;) at = shard->index.AppendSegment(at, &keys, &held);
  // The index is rebuilt, because the old one has room for all previous keys.
  shard->index = HashIndex(shard_bits_, static_cast<int64_t>(keys.size()));
  for (size_t i = 0; i < keys.size(); ++i) {
    uint32_t row = held[i];
    if (row >= rows.limit()) {
      (void)rows.Allocate(&row);
      std::memcpy(rows.Record(row), rows.Record(held[i]),
                  static_cast<size_t>(layout_.record_bytes()));
      shard->order->Take(*shard->order, held[i], row);
      if (tracks_changes_) {
        if (shard->IsChanged(held[i])) {
          shard->MarkChanged(row);
        } else if (shard->IsChanged(row)) {
          shard->is_changed[row] = false;
        }
      }
    }
    shard->index.Insert(HashKey(keys[i]), keys[i], row);
  }
  rows.DropOverflow();
  shard->overflow.Clear();
  shard->order->Resize(rows.capacity());
}

Status HashTableTier::DemoteExcess(Executor* executor, const PutRecords& put) {
  if (!is_limited()) return Status::Ok();
  const auto num_shards = static_cast<int64_t>(shards_.size());
  const int64_t cost = kNanosecondsPerTierRow * (1 + num_rows() / num_shards);
  std::vector<Excess> excess(shards_.size());
  executor->ParallelFor(num_shards, cost, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      excess[static_cast<size_t>(s)] = ExcessOf(*shards_[static_cast<size_t>(s)], s);
    }
  });
  std::vector<int64_t> keys;
  std::vector<int64_t> begins;
  for (const Excess& each : excess) {
    begins.push_back(static_cast<int64_t>(keys.size()));
    keys.insert(keys.end(), each.keys.begin(), each.keys.end());
  }
  const int64_t record_bytes = layout_.record_bytes();
  std::unique_ptr<char[]> records;
  KERAS_SPARSE_RETURN_IF_ERROR(
      AllocateBytes(static_cast<int64_t>(keys.size()) * record_bytes, &records));
  executor->ParallelFor(num_shards, cost, [&](int64_t begin, int64_t end) {
    for (auto s = static_cast<size_t>(begin); s < static_cast<size_t>(end); ++s) {
      char* to = records.get() + begins[s] * record_bytes;
      for (const uint32_t row : excess[s].rows) {
        std::memcpy(to, shards_[s]->rows.Record(row), static_cast<size_t>(record_bytes));
        to += record_bytes;
      }
    }
  });
  if (!keys.empty()) KERAS_SPARSE_RETURN_IF_ERROR(put(keys, std::move(records)));
  // Even if no row is demoted: erased rows have made room for those beyond the limit.
  executor->ParallelFor(num_shards, cost, [&](int64_t begin, int64_t end) {
    for (auto s = static_cast<size_t>(begin); s < static_cast<size_t>(end); ++s) {
      Drop(excess[s], shards_[s].get());
    }
  });
  return Status::Ok();
}

bool HashTableTier::Erase(int64_t key) {
  const uint64_t hash = HashKey(key);
  Shard& shard = ShardOf(hash);
  const uint32_t row = shard.index.Erase(hash, key);
  if (row == HashIndex::kNoRow) return false;
  shard.rows.Free(row);
  return true;
}

Status HashTableTier::Relayout(const RecordLayout& layout, int64_t step, Executor* executor) {
  HashTableTier laid_out(layout, limit_);
  laid_out.now_ = now_;
  Mutex mutex;
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
                              const Status allocated = laid_out.Allocate(&to, &row);
                              if (!allocated.ok()) {
                                const MutexLock lock(mutex);
                                status = allocated;
                                return;
                              }
                              to.index.Insert(HashKey(keys[i]), keys[i], row);
                              if (to.order != nullptr) to.order->Take(*from.order, rows[i], row);
                              layout.LayOut(layout_, from.rows.Record(rows[i]), step,
                                            to.rows.Record(row));
                            }
                          }
                        });
  KERAS_SPARSE_RETURN_IF_ERROR(status);
  for (const auto& shard : laid_out.shards_) shard->num_started = 0;  // these rows are not new
  // Shards are replaced first, because they point into the old arena.
  shards_ = std::move(laid_out.shards_);
  arena_ = std::move(laid_out.arena_);
  layout_ = layout;
  return Status::Ok();
}

Status HashTableTier::Clear(const Initializer& /*initializer*/, int64_t /*step*/,
                            Executor* /*executor*/) {
  MakeShards();
  return Status::Ok();
}

int64_t HashTableTier::num_rows() const {
  int64_t rows = 0;
  for (const auto& shard : shards_) rows += shard->index.size();
  return rows;
}

int64_t HashTableTier::free_bytes() const {
  int64_t rows = 0;
  for (const auto& shard : shards_) rows += shard->rows.num_free();
  return rows * layout_.record_bytes();
}

int64_t HashTableTier::bytes() const {
  int64_t bytes = arena_->bytes();
  for (const auto& shard : shards_) {
    bytes += shard->bytes();
  }
  return bytes;
}

void HashTableTier::TrackChanges() {
  tracks_changes_ = true;
  for (const auto& shard : shards_) shard->is_changed = std::vector<bool>();
}

bool HashTableTier::IsChanged(int64_t key) const {
  const uint64_t hash = HashKey(key);
  const Shard& shard = ShardOf(hash);
  const uint32_t row = shard.index.Find(hash, key);
  return row != HashIndex::kNoRow && shard.IsChanged(row);
}

int64_t HashTableTier::ScanRows(bool changed, int64_t cursor, int64_t max_rows,
                                std::vector<int64_t>* keys,
                                std::vector<const float*>* records) const {
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

Status StagingTier::DemoteExcess(Executor* /*executor*/, const PutRecords& put) {
  if (HashTableTier::num_rows() == 0) return Status::Ok();
  std::vector<int64_t> keys;
  std::vector<const float*> records;
  for (int64_t cursor = 0; cursor >= 0;) cursor = Walk(cursor, INT64_MAX, &keys, &records);
  const int64_t record_bytes = layout().record_bytes();
  std::unique_ptr<char[]> copies;
  KERAS_SPARSE_RETURN_IF_ERROR(
      AllocateBytes(static_cast<int64_t>(keys.size()) * record_bytes, &copies));
  char* to = copies.get();
  for (const float* record : records) {
    std::memcpy(to, record, static_cast<size_t>(record_bytes));
    to += record_bytes;
  }
  KERAS_SPARSE_RETURN_IF_ERROR(put(keys, std::move(copies)));
  DropAll();
  return Status::Ok();
}

}  // namespace keras_sparse
