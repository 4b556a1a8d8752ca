#include <algorithm>
#include <utility>

#include "ops/core/base/bytes.h"
#include "ops/core/device/device_code.h"
#include "ops/core/device/device_requests.h"
#include "ops/core/stores/hbm/dynamic_hbm_store.h"
#include "ops/core/stores/lone_tier.h"

namespace keras_sparse {

namespace {

// Overhead of a row: a key, its place in the index, and its uses.
constexpr int64_t kBesideRecord = 24 + HbmUses::kRowBytes;

// Numbers the rows of n keys: first the freed rows, then `end` and so on.
__global__ void NumberRowsKernel(const uint32_t* freed, int64_t num_freed, int64_t end, int64_t n,
                                 uint32_t* rows) {
  for (int64_t i = cuda_impl::LaneOfKernel(); i < n; i += cuda_impl::LanesOfKernel()) {
    rows[i] = i < num_freed ? freed[i] : static_cast<uint32_t>(end + i - num_freed);
  }
}

}  // namespace

DynamicHbmStore::DynamicHbmStore(Device* device, int64_t record_bytes, const HbmLimit& limit)
    : HbmStore(device, record_bytes), limit_(limit), keys_(device, sizeof(int64_t), kMostHbmRows) {
  records_ = HbmRecords(device, record_bytes, MostRows(record_bytes));
  if (limit.is_over_lower_tiers()) {
    uses_ = std::make_unique<HbmUses>(device, limit.strategy == "LFU");
  }
}

int64_t DynamicHbmStore::MostRows(int64_t record_bytes) const {
  if (limit_.is_over_lower_tiers()) return kMostHbmRows;
  return std::min(kMostHbmRows, limit_.bytes / HbmRecords::StrideOf(record_bytes));
}

Status DynamicHbmStore::Open(Device* device, int64_t record_bytes, const HbmLimit& limit,
                             std::unique_ptr<HbmStore>* store) {
  std::unique_ptr<DynamicHbmStore> made(new DynamicHbmStore(device, record_bytes, limit));
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
  if (limit_.bytes == INT64_MAX || limit_.is_over_lower_tiers()) return INT64_MAX;
  const SharedLock lock(mutex_);
  return MostRows(record_bytes_) - size();
}

int64_t DynamicHbmStore::IndexBytes() const {
  return index_.bytes() + keys_.bytes() + (uses_ == nullptr ? 0 : uses_->bytes());
}

int64_t DynamicHbmStore::IndexMemoryBytes() const {
  return static_cast<int64_t>(free_.capacity() * sizeof(uint32_t) + is_used_.capacity() / 8);
}

Status DynamicHbmStore::FindRows(const int64_t* keys, int64_t n, uint32_t* rows) const {
  return transfer_->Find(index_, keys, n, rows);
}

Status DynamicHbmStore::Grow(int64_t n) {
  const int64_t end = std::max(end_, size() + n);
  if (end > MostRows(record_bytes_) && limit_.bytes != INT64_MAX) {
    return LoneTierIsFull(limit_.table, limit_.bytes, end,
                          end * HbmRecords::StrideOf(record_bytes_));
  }
  return WithTable(limit_.table, GrowTo(end, n));
}

Status DynamicHbmStore::GrowTo(int64_t end, int64_t n) {
  KERAS_SPARSE_RETURN_IF_ERROR(records_.Grow(end));
  KERAS_SPARSE_RETURN_IF_ERROR(keys_.Grow(end));
  if (uses_ != nullptr) KERAS_SPARSE_RETURN_IF_ERROR(uses_->Grow(end));
  KERAS_SPARSE_RETURN_IF_ERROR(changes_.Grow(end));
  return index_.Reserve(n);
}

std::vector<uint32_t> DynamicHbmStore::FreedFor(int64_t n) const {
  const int64_t num_freed = std::min(n, static_cast<int64_t>(free_.size()));
  return {free_.rbegin(), free_.rbegin() + num_freed};
}

Status DynamicHbmStore::InsertRows(const int64_t* keys, const uint32_t* rows, int64_t n) {
  Forget(kept_.size());
  keys_.Scatter(rows, n, reinterpret_cast<const char*>(keys));
  if (uses_ != nullptr) uses_->Start(rows, n);
  return index_.Insert(keys, rows, n);
}

void DynamicHbmStore::TakeRows(int64_t num_freed, int64_t n) {
  const int64_t new_end = end_ + n - num_freed;
  if (static_cast<size_t>(new_end) > is_used_.size()) is_used_.resize(static_cast<size_t>(new_end));
  for (int64_t i = 0; i < num_freed; ++i) {
    is_used_[free_.back()] = true;
    free_.pop_back();
  }
  std::fill(is_used_.begin() + end_, is_used_.begin() + new_end, true);
  end_ = new_end;
}

Status DynamicHbmStore::CreateRows(const int64_t* keys, int64_t n, std::vector<uint32_t>* rows) {
  KERAS_SPARSE_RETURN_IF_ERROR(Grow(n));
  *rows = FreedFor(n);
  const auto num_freed = static_cast<int64_t>(rows->size());
  for (int64_t i = num_freed; i < n; ++i) {
    rows->push_back(static_cast<uint32_t>(end_ + i - num_freed));
  }
  // From here on nothing allocates memory.
  KERAS_SPARSE_RETURN_IF_ERROR(
      transfer_->Send(keys, rows->data(), n,
                      [this](const int64_t* keys_there, const uint32_t* rows_there, int64_t size) {
                        return InsertRows(keys_there, rows_there, size);
                      }));
  TakeRows(num_freed, n);
  return Status::Ok();
}

Status DynamicHbmStore::Reserve(int64_t n) {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  return Grow(n);
}

Status DynamicHbmStore::Create(const int64_t* keys, int64_t n, DeviceArray<uint32_t>* rows) {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  KERAS_SPARSE_RETURN_IF_ERROR(Grow(n));
  DeviceArray<uint32_t> freed;
  DeviceArray<uint32_t> numbers;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Copy(device_, FreedFor(n), &freed));
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Allocate(device_, n, &numbers));
  cuda_impl::Launch(NumberRowsKernel, cuda_impl::BlocksFor(*device_, n), cuda_impl::kBlock,
                    device_->stream(), freed.data(), freed.size(), end_, n, numbers.data());
  KERAS_SPARSE_RETURN_IF_ERROR(InsertRows(keys, numbers.data(), n));
  TakeRows(freed.size(), n);
  changes_.Mark(numbers.data(), n);  // even if the step that created them fails later
  *rows = std::move(numbers);
  return Status::Ok();
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
  const Status written = WriteRows(
      rows, [&](int64_t i) { return records + places[static_cast<size_t>(i)] * record_bytes_; });
  if (!written.ok()) (void)EraseDistinct(new_keys);  // leave no row without content
  return written;
}

Status DynamicHbmStore::Erase(const int64_t* keys, int64_t n) {
  std::vector<int64_t> distinct;
  for (const int64_t place : LastPlaces(keys, n)) distinct.push_back(keys[place]);
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  return EraseDistinct(distinct);
}

Status DynamicHbmStore::EraseDistinct(const std::vector<int64_t>& keys) {
  if (!keys.empty()) Forget(kept_.size());
  std::vector<uint32_t> rows(keys.size());
  KERAS_SPARSE_RETURN_IF_ERROR(
      transfer_->Erase(keys.data(), static_cast<int64_t>(keys.size()), rows.data(), &index_));
  rows.erase(std::remove(rows.begin(), rows.end(), kNoHbmRow), rows.end());
  for (const uint32_t row : rows) is_used_[row] = false;
  free_.insert(free_.end(), rows.begin(), rows.end());
  if (uses_ == nullptr) return Status::Ok();
  return uses_->End(rows.data(), static_cast<int64_t>(rows.size()), transfer_.get());
}

Status DynamicHbmStore::Clear() {
  const MutexLock lock(mutex_);
  Forget(kept_.size());
  index_.Clear();
  records_ = HbmRecords(device_, record_bytes_, MostRows(record_bytes_));
  keys_ = HbmRecords(device_, sizeof(int64_t), kMostHbmRows);
  end_ = 0;
  free_ = {};
  is_used_ = {};
  if (uses_ != nullptr) uses_->Clear();
  changes_.End();
  has_been_full_ = false;
  return Status::Ok();
}

Status DynamicHbmStore::Relayout(const RecordLayout& from, const RecordLayout& to, int64_t step) {
  KERAS_SPARSE_RETURN_IF_ERROR(HbmStore::Relayout(from, to, step));
  const MutexLock lock(mutex_);
  if (uses_ != nullptr) uses_->ForgetStarted();  // these rows are not new
  has_been_full_ = false;
  return Status::Ok();
}

void DynamicHbmStore::BeginUpdate() {
  const MutexLock lock(mutex_);
  if (uses_ != nullptr) uses_->BeginUpdate();
}

void DynamicHbmStore::NoteUses(const uint32_t* rows, int64_t n) {
  if (uses_ != nullptr) uses_->Use(rows, n);
}

Status DynamicHbmStore::FindExcess(std::vector<int64_t>* keys, std::vector<uint32_t>* rows) {
  const int64_t limit = limit_.bytes / (records_.view().stride + kBesideRecord);
  has_been_full_ = has_been_full_ || size() > limit;
  if (uses_ == nullptr || !has_been_full_) return Status::Ok();
  const int64_t num_leaving = size() - NumRowsKept(size(), limit, uses_->num_started());
  if (num_leaving == 0) return Status::Ok();
  HbmUses::Coldest coldest;
  KERAS_SPARSE_RETURN_IF_ERROR(uses_->FindColdest(num_leaving, end_, transfer_.get(), &coldest));
  std::vector<std::pair<int64_t, uint32_t>> leaving;
  const auto append = [&](const std::vector<uint32_t>& found, size_t n) {
    std::vector<int64_t> keys_of_found(found.size());
    KERAS_SPARSE_RETURN_IF_ERROR(KeysOf(found, keys_of_found.data()));
    const size_t begin = leaving.size();
    for (size_t i = 0; i < found.size(); ++i) leaving.emplace_back(keys_of_found[i], found[i]);
    // Lanes append in any order.
    std::sort(leaving.begin() + static_cast<std::ptrdiff_t>(begin), leaving.end());
    leaving.resize(begin + n);
    return Status::Ok();
  };
  KERAS_SPARSE_RETURN_IF_ERROR(append(coldest.rows, coldest.rows.size()));
  KERAS_SPARSE_RETURN_IF_ERROR(append(coldest.tied, static_cast<size_t>(coldest.num_of_tied)));
  for (const auto& [key, row] : leaving) {
    keys->push_back(key);
    rows->push_back(row);
  }
  return Status::Ok();
}

Status DynamicHbmStore::ReadExcess(Excess* excess) {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  std::vector<uint32_t> rows;
  KERAS_SPARSE_RETURN_IF_ERROR(FindExcess(&excess->keys, &rows));
  std::vector<bool> have_changed;
  KERAS_SPARSE_RETURN_IF_ERROR(changes_.AreMarked(rows, &have_changed));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (have_changed[i]) excess->changed.push_back(excess->keys[i]);
  }
  const auto n = static_cast<int64_t>(rows.size());
  KERAS_SPARSE_RETURN_IF_ERROR(AllocateBytes(n * record_bytes_, &excess->records));
  return transfer_->Read(records_, rows.data(), n,
                         [&](int64_t i) { return excess->records.get() + i * record_bytes_; });
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
