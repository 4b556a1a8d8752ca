#include <algorithm>
#include <string>
#include <utility>

#include "ops/core/base/hash.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/optimizer/catch_up.h"
#include "ops/core/record/new_records.h"
#include "ops/core/stores/hbm/dynamic_hbm_store.h"
#include "ops/core/stores/hbm/hbm_store.h"
#include "ops/core/stores/hbm/static_hbm_store.h"

namespace keras_sparse {

namespace {

// Row numbers sent at a time.
constexpr int64_t kCatchUpRows = int64_t{1} << 20;

const bool kRegistered =
    HbmStore::SetOpener([](Device* device, int64_t num_rows, int64_t record_bytes,
                           const HbmLimit& limit, std::unique_ptr<HbmStore>* store) {
      const DeviceScope scope(*device);
      if (num_rows >= 0) return StaticHbmStore::Open(device, num_rows, record_bytes, store);
      return DynamicHbmStore::Open(device, record_bytes, limit, store);
    });

}  // namespace

Status HbmStore::Relayout(const RecordLayout& from, const RecordLayout& to, int64_t step) {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  const int64_t num_rows = records_.num_rows();
  const int64_t most_rows = MostRows(to.record_bytes());
  if (num_rows > most_rows) {
    return ResourceExhausted(
        "`storage_size` must hold all rows with their slots; give the table "
        "more. Received: room for " +
        std::to_string(most_rows) + " rows of " + std::to_string(to.record_bytes()) +
        " bytes, where there are " + std::to_string(num_rows));
  }
  std::unique_ptr<HbmTransfer> transfer;
  HbmRecords records(device_, to.record_bytes(), most_rows);
  KERAS_SPARSE_RETURN_IF_ERROR(HbmTransfer::Open(device_, to.record_bytes(), &transfer));
  KERAS_SPARSE_RETURN_IF_ERROR(records.Grow(num_rows));
  KERAS_SPARSE_RETURN_IF_ERROR(
      cuda_impl::LayOutRecords(records_.view(), from, records.view(), num_rows, to, step, device_));
  transfer_ = std::move(transfer);
  records_ = std::move(records);
  record_bytes_ = to.record_bytes();
  return Status::Ok();
}

Status HbmStore::CatchUp(const UpdateRule& rule, const Rounding& rounding,
                         cuda_impl::HistoryOnDevice* history) {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  // Used rows only: a free row may be older than everything the rule remembers.
  std::vector<uint32_t> rows;
  for (int64_t cursor = 0; cursor >= 0;) {
    rows.clear();
    cursor = NextRows(cursor, kCatchUpRows, &rows);
    const auto catch_up = [&](const int64_t* /*keys*/, const uint32_t* there, int64_t n) {
      return cuda_impl::CatchUpRecords(rule, history, records_.view(), there, n, device_,
                                       {rounding, KeysView()});
    };
    KERAS_SPARSE_RETURN_IF_ERROR(
        transfer_->Send(nullptr, rows.data(), static_cast<int64_t>(rows.size()), catch_up));
  }
  return Status::Ok();
}

RecordsView HbmStore::keys_view() const {
  const SharedLock lock(mutex_);
  return KeysView();
}

RecordsView HbmStore::records_view() const {
  const SharedLock lock(mutex_);
  return records_.view();
}

int64_t HbmStore::bytes() const {
  const SharedLock lock(mutex_);
  return records_.bytes() + changes_.bytes() + IndexBytes() + KeptBytes() +
         transfer_->device_bytes();
}

int64_t HbmStore::memory_bytes() const {
  const SharedLock lock(mutex_);
  return IndexMemoryBytes() + transfer_->memory_bytes();
}

void HbmStore::Contains(const int64_t* keys, int64_t n, bool* found) const {
  const DeviceScope scope(*device_);
  const SharedLock lock(mutex_);
  std::vector<uint32_t> rows(static_cast<size_t>(n), kNoHbmRow);
  (void)FindRows(keys, n, rows.data());
  for (int64_t i = 0; i < n; ++i) found[i] = rows[static_cast<size_t>(i)] != kNoHbmRow;
}

Status HbmStore::NoteUsesOf(const int64_t* keys, int64_t n) {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  std::vector<uint32_t> rows(static_cast<size_t>(n), kNoHbmRow);
  KERAS_SPARSE_RETURN_IF_ERROR(FindRows(keys, n, rows.data()));
  DeviceArray<uint32_t> on_device;
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<uint32_t>::Copy(device_, rows, &on_device));
  NoteUses(on_device.data(), n);
  return Status::Ok();
}

Status HbmStore::GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const {
  const DeviceScope scope(*device_);
  const SharedLock lock(mutex_);
  std::vector<uint32_t> rows(static_cast<size_t>(n));
  KERAS_SPARSE_RETURN_IF_ERROR(FindRows(keys, n, rows.data()));
  std::vector<uint32_t> found_rows;
  std::vector<char*> places;
  for (int64_t i = 0; i < n; ++i) {
    found[i] = rows[static_cast<size_t>(i)] != kNoHbmRow;
    if (!found[i]) continue;
    found_rows.push_back(rows[static_cast<size_t>(i)]);
    places.push_back(to[i]);
  }
  return transfer_->Read(records_, found_rows.data(), static_cast<int64_t>(places.size()),
                         [&](int64_t i) { return places[static_cast<size_t>(i)]; });
}

Status HbmStore::Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                      std::vector<char>* records, int64_t* next) const {
  const DeviceScope scope(*device_);
  const SharedLock lock(mutex_);
  std::vector<uint32_t> rows;
  const int64_t next_row = NextRows(cursor, std::max<int64_t>(1, max_rows), &rows);
  KERAS_SPARSE_RETURN_IF_ERROR(AppendRows(rows, keys, records));
  *next = next_row;
  return Status::Ok();
}

Status HbmStore::WalkChanged(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                             std::vector<char>* records, int64_t* next) const {
  const DeviceScope scope(*device_);
  const SharedLock lock(mutex_);
  std::vector<uint32_t> rows;
  KERAS_SPARSE_RETURN_IF_ERROR(changes_.Walk(cursor, std::max<int64_t>(1, max_rows), &rows, next));
  size_t num_used = 0;
  for (const uint32_t row : rows) {
    if (IsInUse(row)) rows[num_used++] = row;
  }
  rows.resize(num_used);
  return AppendRows(rows, keys, records);
}

Status HbmStore::AppendRows(const std::vector<uint32_t>& rows, std::vector<int64_t>* keys,
                            std::vector<char>* records) const {
  const auto n = static_cast<int64_t>(rows.size());
  std::vector<int64_t> walked(rows.size());
  KERAS_SPARSE_RETURN_IF_ERROR(KeysOf(rows, walked.data()));
  const size_t begin = records->size();
  records->resize(begin + rows.size() * static_cast<size_t>(record_bytes_));
  char* const to = records->data() + begin;
  const Status status =
      transfer_->Read(records_, rows.data(), n, [&](int64_t i) { return to + i * record_bytes_; });
  if (!status.ok()) {
    records->resize(begin);
    return status;
  }
  keys->insert(keys->end(), walked.begin(), walked.end());
  return Status::Ok();
}

Status HbmStore::WriteRows(const std::vector<uint32_t>& rows,
                           const std::function<const char*(int64_t)>& place) {
  const auto n = static_cast<int64_t>(rows.size());
  KERAS_SPARSE_RETURN_IF_ERROR(
      transfer_->Send(nullptr, rows.data(), n,
                      [this](const int64_t* /*keys*/, const uint32_t* there, int64_t size) {
                        changes_.Mark(there, size);
                        NoteUses(there, size);
                        return Status::Ok();
                      }));
  return transfer_->Write(rows.data(), n, place, &records_);
}

void HbmStore::Use(const uint32_t* rows, int64_t n) {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  changes_.Mark(rows, n);
  NoteUses(rows, n);
}

void HbmStore::Keep(CachedRowIndices rows) {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  // The lists of a lookup share their memory.
  const void* lookup = rows.rows_owner.get();
  int64_t num_lookups = 1;
  size_t first = kept_.size();
  for (; first > 0; --first) {
    const void* before = kept_[first - 1].rows_owner.get();
    if (before != lookup && ++num_lookups > kMostKeptLookups) break;
    lookup = before;
  }
  Forget(first);
  kept_.push_back(std::move(rows));
}

void HbmStore::ForgetKept() {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  Forget(kept_.size());
}

void HbmStore::Forget(size_t end) {
  const auto rest = kept_.begin() + static_cast<int64_t>(end);
  std::for_each(kept_.begin(), rest, [](CachedRowIndices& each) { each.DropRows(); });
  kept_.erase(std::remove_if(kept_.begin(), rest,
                             [](const CachedRowIndices& each) { return each.is_checked; }),
              rest);
}

CachedRowIndices HbmStore::cached_row_indices(const int64_t* ids, int64_t num_ids) const {
  const SharedLock lock(mutex_);
  for (const CachedRowIndices& each : kept_) {
    if (each.AreOf(ids, num_ids)) return each;
  }
  return {};
}

std::vector<CachedRowIndices> HbmStore::TakeUnchecked(const int64_t* ids, int64_t num_ids) {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  std::vector<CachedRowIndices> unchecked;
  for (CachedRowIndices& each : kept_) {
    if (each.is_checked || each.ids != ids || each.num_ids != num_ids) continue;
    each.is_checked = true;
    unchecked.push_back(each);
  }
  kept_.erase(std::remove_if(
                  kept_.begin(), kept_.end(),
                  [](const CachedRowIndices& each) { return each.is_checked && !each.has_rows(); }),
              kept_.end());
  return unchecked;
}

Status HbmStore::TrackChanges() {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  return changes_.Begin(records_.num_rows());
}

void HbmStore::ForgetChanges() {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  changes_.End();
}

std::vector<int64_t> HbmStore::LastPlaces(const int64_t* keys, int64_t n) {
  HashIndex seen(0, n);
  std::vector<int64_t> places;
  for (int64_t i = n - 1; i >= 0; --i) {
    const uint64_t hash = HashKey(keys[i]);
    if (seen.Find(hash, keys[i]) != HashIndex::kNoRow) continue;
    seen.Insert(hash, keys[i], 0);
    places.push_back(i);
  }
  std::reverse(places.begin(), places.end());
  return places;
}

}  // namespace keras_sparse
