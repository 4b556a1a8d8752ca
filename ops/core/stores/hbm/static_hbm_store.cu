#include <algorithm>
#include <string>

#include "ops/core/record/new_records.h"
#include "ops/core/stores/hbm/static_hbm_store.h"

namespace keras_sparse {

Status StaticHbmStore::Open(Device* device, int64_t num_rows, int64_t record_bytes,
                            std::unique_ptr<HbmStore>* store) {
  std::unique_ptr<StaticHbmStore> made(new StaticHbmStore(device, num_rows, record_bytes));
  KERAS_SPARSE_RETURN_IF_ERROR(HbmTransfer::Open(device, record_bytes, &made->transfer_));
  made->records_ = HbmRecords(device, record_bytes, num_rows);
  KERAS_SPARSE_RETURN_IF_ERROR(made->records_.Grow(num_rows));
  *store = std::move(made);
  return Status::Ok();
}

Status StaticHbmStore::FindRows(const int64_t* keys, int64_t n, uint32_t* rows) const {
  for (int64_t i = 0; i < n; ++i) {
    rows[i] = Has(keys[i]) ? static_cast<uint32_t>(keys[i]) : kNoHbmRow;
  }
  return Status::Ok();
}

Status StaticHbmStore::Put(const int64_t* keys, int64_t n, const char* records) {
  for (int64_t i = 0; i < n; ++i) {
    if (Has(keys[i])) continue;
    return InvalidArgument("a key of a static table must be in [0, " + std::to_string(num_rows_) +
                           "). Received: keys[" + std::to_string(i) +
                           "] = " + std::to_string(keys[i]));
  }
  const std::vector<int64_t> places = LastPlaces(keys, n);
  std::vector<uint32_t> rows;
  for (const int64_t place : places) rows.push_back(static_cast<uint32_t>(keys[place]));
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  return WriteRows(
      rows, [&](int64_t i) { return records + places[static_cast<size_t>(i)] * record_bytes_; });
}

Status StaticHbmStore::KeepsItsRows(const std::string& received) const {
  return FailedPrecondition("a static table keeps all its " + std::to_string(num_rows_) +
                            " rows; only a dynamic one drops or adds any. Received: " + received);
}

Status StaticHbmStore::Erase(const int64_t* /*keys*/, int64_t /*n*/) { return Status::Ok(); }

Status StaticHbmStore::Initialize(const InitialRows& initial_rows, const RecordLayout& layout,
                                  int64_t step) {
  const DeviceScope scope(*device_);
  const MutexLock lock(mutex_);
  return cuda_impl::InitializeRecords(records_.view(), nullptr, nullptr, num_rows_, initial_rows,
                                      layout, step, device_);
}

Status StaticHbmStore::Clear() { return KeepsItsRows("a call to drop all"); }

Status StaticHbmStore::Create(const int64_t* /*keys*/, int64_t n, DeviceArray<uint32_t>* rows) {
  *rows = {};
  return n == 0 ? Status::Ok() : KeepsItsRows("a call to add " + std::to_string(n));
}

int64_t StaticHbmStore::NextRows(int64_t cursor, int64_t max_rows,
                                 std::vector<uint32_t>* rows) const {
  if (cursor >= num_rows_) return -1;
  const int64_t end = cursor + std::min(max_rows, num_rows_ - cursor);
  for (int64_t row = cursor; row < end; ++row) rows->push_back(static_cast<uint32_t>(row));
  return end < num_rows_ ? end : -1;
}

Status StaticHbmStore::KeysOf(const std::vector<uint32_t>& rows, int64_t* keys) const {
  std::copy(rows.begin(), rows.end(), keys);
  return Status::Ok();
}

}  // namespace keras_sparse
