#include "ops/core/stores/dram_store.h"

#include <cstring>

#include "ops/core/base/hash.h"

namespace keras_sparse {

DramStore::DramStore(int64_t record_bytes) : record_bytes_(record_bytes) { Reset(); }

void DramStore::Reset() {
  arena_ = std::make_unique<Arena>();
  index_ = std::make_unique<HashIndex>(0);
  rows_ = std::make_unique<RecordSlabs>(arena_.get(), record_bytes_);
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
  return index_->bytes() + arena_->bytes();
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
    std::memcpy(to[i], rows_->Record(row), static_cast<size_t>(record_bytes_));
  }
  return Status::Ok();
}

Status DramStore::Put(const int64_t* keys, int64_t n, const char* records) {
  const MutexLock lock(mutex_);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = HashKey(keys[i]);
    uint32_t row = index_->Find(hash, keys[i]);
    if (row == HashIndex::kNoRow) {
      KERAS_SPARSE_RETURN_IF_ERROR(rows_->Allocate(&row));
      index_->Insert(hash, keys[i], row);
    }
    std::memcpy(rows_->Record(row), records + i * record_bytes_,
                static_cast<size_t>(record_bytes_));
  }
  return Status::Ok();
}

Status DramStore::Erase(const int64_t* keys, int64_t n) {
  const MutexLock lock(mutex_);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t row = index_->Erase(HashKey(keys[i]), keys[i]);
    if (row != HashIndex::kNoRow) rows_->Free(row);
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
    const auto* record = reinterpret_cast<const char*>(rows_->Record(row));
    records->insert(records->end(), record, record + record_bytes_);
  }
  return Status::Ok();
}

}  // namespace keras_sparse
