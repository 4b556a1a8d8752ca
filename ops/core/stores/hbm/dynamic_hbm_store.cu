#include <algorithm>
#include <string>

#include "ops/core/stores/hbm/dynamic_hbm_store.h"

namespace keras_sparse {

DynamicHbmStore::DynamicHbmStore(Device* device, int64_t record_bytes, int64_t capacity)
    : HbmStore(device, record_bytes),
      capacity_(capacity),
      keys_(device, sizeof(int64_t), kMostHbmRows) {
  records_ = HbmRecords(device, record_bytes, MostRows(record_bytes));
}

int64_t DynamicHbmStore::MostRows(int64_t record_bytes) const {
  return std::min(kMostHbmRows, capacity_ / HbmRecords::StrideOf(record_bytes));
}

Status DynamicHbmStore::Open(Device* device, int64_t record_bytes, int64_t capacity,
                             std::unique_ptr<HbmStore>* store) {
  std::unique_ptr<DynamicHbmStore> made(new DynamicHbmStore(device, record_bytes, capacity));
  KERAS_SPARSE_RETURN_IF_ERROR(HbmTransfer::Open(device, record_bytes, &made->transfer_));
  KERAS_SPARSE_RETURN_IF_ERROR(HbmIndex::Open(device, &made->index_));
  *store = std::move(made);
  return Status::Ok();
}

HbmIndexView DynamicHbmStore::index_view() const {
  const SharedLock lock(mutex_);
  return index_.view();
}

int64_t DynamicHbmStore::num_rows() const {
  const SharedLock lock(mutex_);
  return size();
}

int64_t DynamicHbmStore::Room() const {
  if (capacity_ == INT64_MAX) return INT64_MAX;
  const SharedLock lock(mutex_);
  return MostRows(record_bytes_) - size();
}

int64_t DynamicHbmStore::IndexBytes() const { return index_.bytes() + keys_.bytes(); }

int64_t DynamicHbmStore::IndexMemoryBytes() const {
  return static_cast<int64_t>(free_.capacity() * sizeof(uint32_t) + is_used_.capacity() / 8);
}

Status DynamicHbmStore::FindRows(const int64_t* keys, int64_t n, uint32_t* rows) const {
  return transfer_->Find(index_, keys, n, rows);
}

Status DynamicHbmStore::Grow(int64_t n) {
  const int64_t end = std::max(end_, size() + n);
  if (end > MostRows(record_bytes_) && capacity_ != INT64_MAX) {
    return TierIsFull("the GPU's memory", capacity_, end * HbmRecords::StrideOf(record_bytes_));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(records_.Grow(end));
  KERAS_SPARSE_RETURN_IF_ERROR(keys_.Grow(end));
  return index_.Reserve(n);
}

Status DynamicHbmStore::CreateRows(const int64_t* keys, int64_t n, std::vector<uint32_t>* rows) {
  KERAS_SPARSE_RETURN_IF_ERROR(Grow(n));
  const int64_t again = std::min(n, static_cast<int64_t>(free_.size()));
  rows->assign(free_.rbegin(), free_.rbegin() + again);
  for (int64_t i = again; i < n; ++i) rows->push_back(static_cast<uint32_t>(end_ + i - again));
  is_used_.resize(static_cast<size_t>(end_ + n - again));
  // From here on nothing needs memory that there may not be.
  KERAS_SPARSE_RETURN_IF_ERROR(transfer_->Write(
      rows->data(), n, [&](int64_t i) { return reinterpret_cast<const char*>(keys + i); }, &keys_));
  KERAS_SPARSE_RETURN_IF_ERROR(transfer_->Insert(keys, rows->data(), n, &index_));
  free_.resize(free_.size() - static_cast<size_t>(again));
  end_ += n - again;
  for (const uint32_t row : *rows) is_used_[row] = true;
  return Status::Ok();
}

Status DynamicHbmStore::Create(const int64_t* keys, int64_t n, std::vector<uint32_t>* rows) {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  return CreateRows(keys, n, rows);
}

Status DynamicHbmStore::Put(const int64_t* keys, int64_t n, const char* records) {
  const std::vector<int64_t> places = LastPlaces(keys, n);
  const size_t num_distinct = places.size();
  std::vector<int64_t> distinct;
  for (const int64_t place : places) distinct.push_back(keys[place]);
  std::vector<uint32_t> rows(num_distinct);
  std::vector<int64_t> new_keys;
  std::vector<uint32_t> new_rows;
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  KERAS_SPARSE_RETURN_IF_ERROR(
      FindRows(distinct.data(), static_cast<int64_t>(num_distinct), rows.data()));
  for (size_t i = 0; i < num_distinct; ++i) {
    if (rows[i] == kNoHbmRow) new_keys.push_back(distinct[i]);
  }
  KERAS_SPARSE_RETURN_IF_ERROR(
      CreateRows(new_keys.data(), static_cast<int64_t>(new_keys.size()), &new_rows));
  auto new_row = new_rows.begin();
  for (uint32_t& row : rows) {
    if (row == kNoHbmRow) row = *new_row++;
  }
  return transfer_->Write(
      rows.data(), static_cast<int64_t>(num_distinct),
      [&](int64_t i) { return records + places[static_cast<size_t>(i)] * record_bytes_; },
      &records_);
}

Status DynamicHbmStore::Erase(const int64_t* keys, int64_t n) {
  std::vector<int64_t> distinct;
  for (const int64_t place : LastPlaces(keys, n)) distinct.push_back(keys[place]);
  std::vector<uint32_t> rows(distinct.size());
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  KERAS_SPARSE_RETURN_IF_ERROR(transfer_->Erase(
      distinct.data(), static_cast<int64_t>(distinct.size()), rows.data(), &index_));
  for (const uint32_t row : rows) {
    if (row == kNoHbmRow) continue;
    free_.push_back(row);
    is_used_[row] = false;
  }
  return Status::Ok();
}

Status DynamicHbmStore::Clear() {
  const MutexLock lock(mutex_);
  index_.Clear();
  records_ = HbmRecords(device_, record_bytes_, MostRows(record_bytes_));
  keys_ = HbmRecords(device_, sizeof(int64_t), kMostHbmRows);
  end_ = 0;
  free_ = {};
  is_used_ = {};
  return Status::Ok();
}

int64_t DynamicHbmStore::NextRows(int64_t cursor, int64_t max_rows,
                                  std::vector<uint32_t>* rows) const {
  const auto next_used = [&](int64_t row) {
    while (row < end_ && !is_used_[static_cast<size_t>(row)]) ++row;
    return row;
  };
  int64_t row = next_used(cursor);
  while (row < end_ && static_cast<int64_t>(rows->size()) < max_rows) {
    rows->push_back(static_cast<uint32_t>(row));
    row = next_used(row + 1);
  }
  return row < end_ ? row : -1;
}

Status DynamicHbmStore::KeysOf(const std::vector<uint32_t>& rows, int64_t* keys) const {
  return transfer_->Read(keys_, rows.data(), static_cast<int64_t>(rows.size()),
                         [&](int64_t i) { return reinterpret_cast<char*>(keys + i); });
}

}  // namespace keras_sparse
