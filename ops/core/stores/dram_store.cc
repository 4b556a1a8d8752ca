#include "ops/core/stores/dram_store.h"

#include <cstring>

#include "ops/core/base/hash.h"

namespace keras_sparse {

namespace {

// Overhead of a row: in the index, and in the order if it is kept.
constexpr int64_t kIndexBytes = 24;
constexpr int64_t kOrderBytes = 16;

const bool kRegistered =
    RowStore::Register("dram", [](const StoreOptions& options, std::unique_ptr<RowStore>* store) {
      *store =
          std::make_unique<DramStore>(options.record_bytes, options.capacity, options.keeps_order);
      return Status::Ok();
    });

}  // namespace

DramStore::DramStore(int64_t record_bytes, int64_t capacity, bool keeps_order)
    : record_bytes_(record_bytes),
      capacity_(capacity),
      row_bytes_(record_bytes + kIndexBytes + (keeps_order ? kOrderBytes : 0)),
      keeps_order_(keeps_order) {
  Reset();
}

void DramStore::Reset() {
  arena_ = std::make_unique<Arena>();
  index_ = std::make_unique<HashIndex>(0);
  rows_ = std::make_unique<RecordSlabs>(arena_.get(), record_bytes_);
  order_ = LastWriteWins();
  keys_ = {};
}

Status DramStore::Clear() {
  const MutexLock lock(mutex_);
  Reset();
  return Status::Ok();
}

int64_t DramStore::num_rows() const {
  const SharedLock lock(mutex_);
  return index_->size();
}

int64_t DramStore::bytes() const {
  const SharedLock lock(mutex_);
  return index_->bytes() + arena_->bytes() + order_.bytes() +
         static_cast<int64_t>(keys_.capacity() * sizeof(keys_[0]));
}

void DramStore::Contains(const int64_t* keys, int64_t n, bool* found) const {
  const SharedLock lock(mutex_);
  index_->Contains(keys, n, found);
}

Status DramStore::GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const {
  const SharedLock lock(mutex_);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t row = index_->Find(HashKey(keys[i]), keys[i]);
    found[i] = row != HashIndex::kNoRow;
    if (!found[i]) continue;
    std::memcpy(to[i], RecordOf(row), static_cast<size_t>(record_bytes_));
  }
  return Status::Ok();
}

Status DramStore::CheckRoom(const int64_t* keys, int64_t n) const {
  if (n <= capacity_ / row_bytes_ - index_->size()) return Status::Ok();
  HashIndex seen(0);
  int64_t num_rows = index_->size();
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = HashKey(keys[i]);
    if (index_->Find(hash, keys[i]) != HashIndex::kNoRow) continue;
    if (seen.Exchange(hash, keys[i], 0) == HashIndex::kNoRow) ++num_rows;
  }
  if (num_rows <= capacity_ / row_bytes_) return Status::Ok();
  return TierIsFull("memory", capacity_, num_rows * row_bytes_);
}

Status DramStore::Create(int64_t key, uint32_t* row) {
  KERAS_SPARSE_RETURN_IF_ERROR(rows_->Allocate(row));
  index_->Insert(HashKey(key), key, *row);
  if (!keeps_order_) return Status::Ok();
  order_.Resize(static_cast<size_t>(rows_->capacity()));
  keys_.resize(static_cast<size_t>(rows_->capacity()));
  keys_[*row] = key;
  return Status::Ok();
}

Status DramStore::Put(const int64_t* keys, int64_t n, const char* records) {
  const MutexLock lock(mutex_);
  KERAS_SPARSE_RETURN_IF_ERROR(CheckRoom(keys, n));
  for (int64_t i = 0; i < n; ++i) {
    uint32_t row = index_->Find(HashKey(keys[i]), keys[i]);
    if (row == HashIndex::kNoRow) {
      KERAS_SPARSE_RETURN_IF_ERROR(Create(keys[i], &row));
    } else if (keeps_order_) {
      order_.Remove(row);
    }
    if (keeps_order_) order_.Append(row);
    std::memcpy(rows_->Record(row), records + i * record_bytes_,
                static_cast<size_t>(record_bytes_));
  }
  return Status::Ok();
}

Status DramStore::Erase(const int64_t* keys, int64_t n) {
  const MutexLock lock(mutex_);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t row = index_->Erase(HashKey(keys[i]), keys[i]);
    if (row == HashIndex::kNoRow) continue;
    if (keeps_order_) order_.Remove(row);
    rows_->Free(row);
  }
  return Status::Ok();
}

int64_t DramStore::Room() const {
  if (capacity_ == INT64_MAX) return INT64_MAX;
  const SharedLock lock(mutex_);
  return capacity_ / row_bytes_ - index_->size();
}

Status DramStore::Oldest(int64_t n, std::vector<int64_t>* keys, std::vector<char>* records) const {
  if (!keeps_order_) return RowStore::Oldest(n, keys, records);
  const SharedLock lock(mutex_);
  uint32_t row = order_.first();
  for (int64_t i = 0; i < n && row != LastWriteWins::kEnd; ++i, row = order_.Next(row)) {
    keys->push_back(keys_[row]);
    records->insert(records->end(), RecordOf(row), RecordOf(row) + record_bytes_);
  }
  return Status::Ok();
}

Status DramStore::Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                       std::vector<char>* records, int64_t* next) const {
  const SharedLock lock(mutex_);
  std::vector<uint32_t> rows;
  *next = cursor;
  while (*next >= 0 && static_cast<int64_t>(rows.size()) < max_rows) {
    *next = index_->AppendSegment(*next, keys, &rows);
  }
  for (const uint32_t row : rows) {
    records->insert(records->end(), RecordOf(row), RecordOf(row) + record_bytes_);
  }
  return Status::Ok();
}

}  // namespace keras_sparse
