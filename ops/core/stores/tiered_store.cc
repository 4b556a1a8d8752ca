#include "ops/core/stores/tiered_store.h"

#include <algorithm>

#include "ops/core/base/hash.h"
#include "ops/core/index/hash_index.h"

namespace keras_sparse {
namespace {

// Memory for rows that are being moved down.
constexpr int64_t kMoveBytes = int64_t{4} << 20;

// Some rows of a batch.
struct Rows {
  std::vector<int64_t> keys;
  std::vector<char> records;

  int64_t size() const { return static_cast<int64_t>(keys.size()); }
  void Add(int64_t key, const char* record, int64_t record_bytes) {
    keys.push_back(key);
    records.insert(records.end(), record, record + record_bytes);
  }
  Status PutInto(RowStore* store) const {
    return keys.empty() ? Status::Ok() : store->Put(keys.data(), size(), records.data());
  }
};

}  // namespace

Status TieredStore::Open(std::unique_ptr<RowStore> upper, std::unique_ptr<RowStore> lower,
                         std::unique_ptr<RowStore>* store) {
  std::vector<int64_t> keys;
  std::vector<char> records;
  KERAS_SPARSE_RETURN_IF_ERROR(upper->Oldest(0, &keys, &records));
  store->reset(new TieredStore(std::move(upper), std::move(lower)));
  return Status::Ok();
}

void TieredStore::Contains(const int64_t* keys, int64_t n, bool* found) const {
  upper_->Contains(keys, n, found);
  const auto is_below = std::make_unique<bool[]>(static_cast<size_t>(n));
  lower_->Contains(keys, n, is_below.get());
  for (int64_t i = 0; i < n; ++i) found[i] |= is_below[static_cast<size_t>(i)];
}

Status TieredStore::GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const {
  KERAS_SPARSE_RETURN_IF_ERROR(upper_->GetTo(keys, n, to, found));
  std::vector<int64_t> missing;  // positions in `keys`
  for (int64_t i = 0; i < n; ++i) {
    if (!found[i]) missing.push_back(i);
  }
  return lower_->GetPlaces(missing, keys, to, found);
}

Status TieredStore::Put(const int64_t* keys, int64_t n, const char* records) {
  const MutexLock lock(write_mutex_);
  HashIndex last(0);  // if a key repeats, its last record stays
  for (int64_t i = 0; i < n; ++i) {
    (void)last.Exchange(HashKey(keys[i]), keys[i], static_cast<uint32_t>(i));
  }
  std::vector<int64_t> distinct;
  std::vector<int64_t> places;  // their positions in `keys`
  for (int64_t i = 0; i < n; ++i) {
    if (last.Find(HashKey(keys[i]), keys[i]) != static_cast<uint32_t>(i)) continue;
    distinct.push_back(keys[i]);
    places.push_back(i);
  }
  const auto num_keys = static_cast<int64_t>(distinct.size());
  const auto is_there = std::make_unique<bool[]>(distinct.size());
  Contains(distinct.data(), num_keys, is_there.get());
  const int64_t num_new = std::count(is_there.get(), is_there.get() + num_keys, false);
  KERAS_SPARSE_RETURN_IF_ERROR(MakeRoom(num_new));

  // Asked again, because rows of this batch may have been among those moved down.
  const auto is_above = std::make_unique<bool[]>(distinct.size());
  upper_->Contains(distinct.data(), num_keys, is_above.get());
  int64_t num_past = num_new - std::min(num_new, upper_->Room());
  Rows above;
  Rows below;
  for (size_t i = 0; i < distinct.size(); ++i) {
    const bool is_past = !is_there[i] && num_past-- > 0;
    const bool goes_above = is_above[i] || (!is_there[i] && !is_past);
    const char* record = records + places[i] * record_bytes();
    (goes_above ? above : below).Add(distinct[i], record, record_bytes());
  }
  // The tier that may be full comes first: if it is, nothing has been put.
  KERAS_SPARSE_RETURN_IF_ERROR(below.PutInto(lower_.get()));
  return above.PutInto(upper_.get());
}

Status TieredStore::MakeRoom(int64_t num_rows) {
  const int64_t chunk = std::max<int64_t>(1, kMoveBytes / record_bytes());
  for (int64_t room = upper_->Room(); room < num_rows; room = upper_->Room()) {
    Rows oldest;
    KERAS_SPARSE_RETURN_IF_ERROR(
        upper_->Oldest(std::min(num_rows - room, chunk), &oldest.keys, &oldest.records));
    if (oldest.keys.empty()) break;
    const Status put = oldest.PutInto(lower_.get());
    if (!put.ok()) {
      // Copies that did reach the lower tier would be stale once they are replaced above.
      (void)lower_->Erase(oldest.keys.data(), oldest.size());
      return put;
    }
    KERAS_SPARSE_RETURN_IF_ERROR(upper_->EraseMoved(oldest.keys.data(), oldest.size()));
  }
  return Status::Ok();
}

Status TieredStore::Erase(const int64_t* keys, int64_t n) {
  const MutexLock lock(write_mutex_);
  // The lower tier first, so that a copy left there is never seen without the row above.
  KERAS_SPARSE_RETURN_IF_ERROR(lower_->Erase(keys, n));
  return upper_->Erase(keys, n);
}

Status TieredStore::Clear() {
  const MutexLock lock(write_mutex_);
  KERAS_SPARSE_RETURN_IF_ERROR(lower_->Clear());
  return upper_->Clear();
}

Status TieredStore::Compact() {
  const MutexLock lock(write_mutex_);
  const Status status = lower_->Compact();
  const Status above = upper_->Compact();
  return status.ok() ? above : status;
}

Status TieredStore::LinkFiles(const std::string& path_prefix, std::vector<LinkedFile>* files) {
  const MutexLock lock(write_mutex_);
  KERAS_SPARSE_RETURN_IF_ERROR(lower_->LinkFiles(path_prefix, files));
  return upper_->LinkFiles(path_prefix, files);
}

Status TieredStore::WalkBoth(WalkMethod walk, int64_t cursor, int64_t max_rows,
                             std::vector<int64_t>* keys, std::vector<char>* records,
                             int64_t* next) const {
  // A cursor is the tier's own cursor and one bit for the tier.
  const int64_t position = cursor >> 1;
  if ((cursor & 1) == 1) {
    KERAS_SPARSE_RETURN_IF_ERROR((*upper_.*walk)(position, max_rows, keys, records, next));
    if (*next >= 0) *next = *next * 2 + 1;
    return Status::Ok();
  }
  Rows walked;
  KERAS_SPARSE_RETURN_IF_ERROR(
      (*lower_.*walk)(position, max_rows, &walked.keys, &walked.records, next));
  *next = *next >= 0 ? *next * 2 : 1;
  const auto is_above = std::make_unique<bool[]>(walked.keys.size());
  upper_->Contains(walked.keys.data(), walked.size(), is_above.get());
  for (size_t i = 0; i < walked.keys.size(); ++i) {
    if (is_above[i]) continue;
    keys->push_back(walked.keys[i]);
    const char* record = walked.records.data() + static_cast<int64_t>(i) * record_bytes();
    records->insert(records->end(), record, record + record_bytes());
  }
  return Status::Ok();
}

}  // namespace keras_sparse
