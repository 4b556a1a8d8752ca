#include "ops/core/table/staged_records.h"

#include <utility>

#include "ops/core/base/hash.h"

namespace keras_sparse {
namespace {

// Limits of batches without a Hold: a few training steps. Evaluation would add batches without end.
constexpr int64_t kMaxBytes = int64_t{64} << 20;
constexpr size_t kMaxHeldBatches = 8;

}  // namespace

StagedRecords::Reading::Reading(StagedRecords* staged) : staged_(staged) {
  const MutexLock lock(staged->mutex_);
  begin_ = staged->log_begin_ + static_cast<int64_t>(staged->log_.size());
  num_clears_ = staged->num_clears_;
  staged->readings_.insert(begin_);
}

StagedRecords::Reading::~Reading() {
  const MutexLock lock(staged_->mutex_);
  staged_->readings_.erase(staged_->readings_.find(begin_));
  const int64_t end = staged_->log_begin_ + static_cast<int64_t>(staged_->log_.size());
  const int64_t needed = staged_->readings_.empty() ? end : *staged_->readings_.begin();
  auto& log = staged_->log_;
  log.erase(log.begin(), log.begin() + (needed - staged_->log_begin_));
  staged_->log_begin_ = needed;
}

template <typename IsLeftOut>
void StagedRecords::Stage(std::shared_ptr<const RecordBatch> batch, const Hold& hold,
                          const IsLeftOut& is_left_out) {
  const RecordBatch& records = *batch;
  slots_.push_back({std::move(batch), hold != nullptr, hold, 0});
  const auto slot = std::prev(slots_.end());
  bytes_ += records.bytes();
  const std::vector<int64_t>& keys = records.keys();
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t hash = HashKey(keys[i]);
    if (index_.Find(hash, keys[i]) != HashIndex::kNoRow || is_left_out(keys[i])) continue;
    if (free_entries_.empty()) {
      free_entries_.push_back(static_cast<uint32_t>(entries_.size()));
      entries_.emplace_back();
    }
    const uint32_t entry = free_entries_.back();
    free_entries_.pop_back();
    entries_[entry] = {records.record(i), slot};
    index_.Insert(hash, keys[i], entry);
    ++slot->num_staged;
  }
  if (slot->num_staged == 0) DropSlot(slot);
  MakeRoom();
}

void StagedRecords::Add(std::shared_ptr<const RecordBatch> batch) {
  const MutexLock lock(mutex_);
  Stage(std::move(batch), nullptr, [](int64_t) { return false; });
}

StagedRecords::Hold StagedRecords::Add(std::shared_ptr<const RecordBatch> batch,
                                       const Reading& reading) {
  const MutexLock lock(mutex_);
  if (num_clears_ != reading.num_clears_) return nullptr;
  const auto begin = log_.begin() + (reading.begin_ - log_begin_);
  HashIndex changed(0, log_.end() - begin);
  for (auto key = begin; key != log_.end(); ++key) changed.Exchange(HashKey(*key), *key, 0);
  const Hold hold(this, [owner = weak_from_this()](const void*) {
    if (const auto staged = owner.lock()) staged->Release();
  });
  Stage(std::move(batch), hold, [&changed](int64_t key) {
    return changed.size() > 0 && changed.Find(HashKey(key), key) != HashIndex::kNoRow;
  });
  return hold;
}

std::vector<const float*> StagedRecords::Find(const std::vector<int64_t>& keys,
                                              Batches* found_in) const {
  std::vector<const float*> records(keys.size());
  const MutexLock lock(mutex_);
  if (slots_.empty()) return records;
  const auto n = static_cast<int64_t>(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    index_.PrefetchAhead(keys.data(), n, static_cast<int64_t>(i));
    const uint32_t entry = index_.Find(HashKey(keys[i]), keys[i]);
    if (entry == HashIndex::kNoRow) continue;
    records[i] = entries_[entry].record;
  }
  // Returns all batches: finding the ones of these records would take longer.
  for (const Slot& slot : slots_) found_in->push_back(slot.batch);
  return records;
}

void StagedRecords::DropKey(int64_t key) {
  const uint32_t entry = index_.Erase(HashKey(key), key);
  if (entry == HashIndex::kNoRow) return;
  free_entries_.push_back(entry);
  const auto slot = entries_[entry].slot;
  if (--slot->num_staged > 0) return;
  bytes_ -= slot->batch->bytes();
  slots_.erase(slot);
}

void StagedRecords::DropSlot(std::list<Slot>::iterator slot) {
  const RecordBatch& records = *slot->batch;
  for (const int64_t key : records.keys()) {
    const uint32_t entry = index_.Find(HashKey(key), key);
    if (entry == HashIndex::kNoRow || entries_[entry].slot != slot) continue;
    (void)index_.Erase(HashKey(key), key);
    free_entries_.push_back(entry);
  }
  bytes_ -= records.bytes();
  slots_.erase(slot);
}

void StagedRecords::MakeRoom() {
  std::vector<std::list<Slot>::iterator> loose;
  int64_t bytes = 0;
  for (auto slot = slots_.begin(); slot != slots_.end(); ++slot) {
    if (slot->is_held) continue;
    loose.push_back(slot);
    bytes += slot->batch->bytes();
  }
  for (size_t i = 0; i + 1 < loose.size(); ++i) {
    if (bytes <= kMaxBytes && loose.size() - i <= kMaxHeldBatches) return;
    bytes -= loose[i]->batch->bytes();
    DropSlot(loose[i]);
  }
}

void StagedRecords::Release() {
  const MutexLock lock(mutex_);
  for (auto slot = slots_.begin(); slot != slots_.end();) {
    const auto each = slot++;
    if (!each->is_held || !each->hold.expired()) continue;
    each->is_held = false;
    slots_.splice(slots_.end(), slots_, each);  // an update may still need it
  }
  MakeRoom();
}

void StagedRecords::Drop(const int64_t* keys, int64_t n) {
  const MutexLock lock(mutex_);
  if (!readings_.empty()) log_.insert(log_.end(), keys, keys + n);
  if (slots_.empty()) return;
  for (int64_t i = 0; i < n; ++i) {
    index_.PrefetchAhead(keys, n, i);
    DropKey(keys[i]);
  }
}

void StagedRecords::Clear() {
  const MutexLock lock(mutex_);
  ++num_clears_;
  slots_.clear();
  index_ = HashIndex(0);
  entries_.clear();
  free_entries_.clear();
  bytes_ = 0;
}

int64_t StagedRecords::bytes() const {
  const MutexLock lock(mutex_);
  if (entries_.empty()) return 0;
  return bytes_ + index_.bytes() + static_cast<int64_t>(entries_.capacity() * sizeof(Entry));
}

}  // namespace keras_sparse
