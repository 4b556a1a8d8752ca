#include "ops/core/buffered_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/core/hash.h"
#include "ops/core/hash_index.h"

namespace keras_sparse {

struct BufferedStore::Change {
  Change(const int64_t* first_key, int64_t n) : keys(first_key, first_key + n) {
    for (int64_t i = 0; i < n; ++i) {
      (void)index.Exchange(HashKey(first_key[i]), first_key[i], static_cast<uint32_t>(i));
    }
  }

  bool is_erasure() const { return records.empty(); }
  int64_t bytes() const {
    return static_cast<int64_t>(8 * keys.size() + records.size()) + index.bytes();
  }

  std::vector<int64_t> keys;
  std::vector<char> records;
  HashIndex index{0};  // key -> its last place in `keys`
};

BufferedStore::BufferedStore(std::unique_ptr<RowStore> store, BackgroundPool* pool,
                             int64_t max_queued_bytes)
    : store_(std::move(store)),
      max_queued_bytes_(max_queued_bytes),
      writer_(pool, [this] { return MakeNextChange(); }) {}

bool BufferedStore::MakeNextChange() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (queue_.empty() || IsStuck()) return false;
  const std::shared_ptr<const Change> change = queue_.front();
  is_writing_ = true;
  lock.unlock();
  const auto n = static_cast<int64_t>(change->keys.size());
  const Status status = change->is_erasure()
                            ? store_->Erase(change->keys.data(), n)
                            : store_->Put(change->keys.data(), n, change->records.data());
  lock.lock();
  is_writing_ = false;
  error_ = status;
  if (status.ok()) {
    queued_bytes_ -= change->bytes();
    queue_.pop_front();
  }
  changed_.notify_all();
  return !queue_.empty() && !IsStuck();
}

BufferedStore::Changes BufferedStore::Queued() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {queue_.begin(), queue_.end()};
}

BufferedStore::Changes BufferedStore::StuckChanges() const {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() || IsStuck(); });
  return {queue_.begin(), queue_.end()};
}

Status BufferedStore::Flush() {
  (void)StuckChanges();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    KERAS_SPARSE_RETURN_IF_ERROR(error_);
  }
  return store_->Flush();
}

bool BufferedStore::FindLast(const Changes& changes, int64_t key, const char** record) const {
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    const uint32_t place = (*change)->index.Find(HashKey(key), key);
    if (place == HashIndex::kNoRow) continue;
    *record =
        (*change)->is_erasure() ? nullptr : (*change)->records.data() + place * record_bytes();
    return true;
  }
  return false;
}

std::vector<int64_t> BufferedStore::LastKeys(const Changes& changes, bool with_record) const {
  std::vector<int64_t> keys;
  for (const auto& change : changes) {
    for (const int64_t key : change->keys) {
      const char* record = nullptr;
      if (FindLast(changes, key, &record) && (record != nullptr) == with_record) {
        keys.push_back(key);
      }
    }
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

int64_t BufferedStore::num_rows() const {
  const Changes stuck = StuckChanges();
  int64_t rows = store_->num_rows();
  for (const bool with_record : {true, false}) {
    const std::vector<int64_t> keys = LastKeys(stuck, with_record);
    const auto n = static_cast<int64_t>(keys.size());
    const auto found = std::make_unique<bool[]>(keys.size());
    store_->Contains(keys.data(), n, found.get());
    const int64_t there = std::count(found.get(), found.get() + n, true);
    rows += with_record ? n - there : -there;
  }
  return rows;
}

bool BufferedStore::is_empty() const { return Queued().empty() && store_->is_empty(); }

int64_t BufferedStore::bytes() const { return store_->bytes(); }

int64_t BufferedStore::memory_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return queued_bytes_ + store_->memory_bytes();
}

void BufferedStore::Contains(const int64_t* keys, int64_t n, bool* found) const {
  const Changes changes = Queued();
  store_->Contains(keys, n, found);
  for (int64_t i = 0; i < n; ++i) {
    const char* record = nullptr;
    if (FindLast(changes, keys[i], &record)) found[i] = record != nullptr;
  }
}

Status BufferedStore::Get(const int64_t* keys, int64_t n, char* records, bool* found) const {
  // Before the store is asked: what is written meanwhile is here too.
  const Changes changes = Queued();
  const auto bytes = static_cast<size_t>(record_bytes());
  std::vector<int64_t> places;  // of the keys that the changes do not have
  std::vector<int64_t> others;
  for (int64_t i = 0; i < n; ++i) {
    const char* record = nullptr;
    if (!FindLast(changes, keys[i], &record)) {
      places.push_back(i);
      others.push_back(keys[i]);
      continue;
    }
    found[i] = record != nullptr;
    if (found[i]) std::memcpy(records + static_cast<size_t>(i) * bytes, record, bytes);
  }
  if (static_cast<int64_t>(others.size()) == n) return store_->Get(keys, n, records, found);
  std::vector<char> read(others.size() * bytes);
  const auto read_found = std::make_unique<bool[]>(others.size());
  KERAS_SPARSE_RETURN_IF_ERROR(store_->Get(others.data(), static_cast<int64_t>(others.size()),
                                           read.data(), read_found.get()));
  for (size_t i = 0; i < others.size(); ++i) {
    found[places[i]] = read_found[i];
    if (!read_found[i]) continue;
    std::memcpy(records + static_cast<size_t>(places[i]) * bytes, read.data() + i * bytes, bytes);
  }
  return Status::Ok();
}

Status BufferedStore::Put(const int64_t* keys, int64_t n, const char* records) {
  if (n == 0) return Status::Ok();
  auto change = std::make_shared<Change>(keys, n);
  change->records.assign(records, records + n * record_bytes());
  KERAS_SPARSE_RETURN_IF_ERROR(WaitForRoom(change->bytes()));
  Enqueue(std::move(change));
  return Status::Ok();
}

Status BufferedStore::Erase(const int64_t* keys, int64_t n) {
  if (n > 0) Enqueue(std::make_shared<Change>(keys, n));
  return Status::Ok();
}

Status BufferedStore::WaitForRoom(int64_t bytes) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (IsStuck()) {
    error_ = Status::Ok();
    lock.unlock();
    writer_.Schedule();
    (void)StuckChanges();
    lock.lock();
  }
  changed_.wait(lock, [&] {
    return IsStuck() || queue_.empty() || queued_bytes_ + bytes <= max_queued_bytes_;
  });
  return error_;
}

void BufferedStore::Enqueue(std::shared_ptr<const Change> change) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queued_bytes_ += change->bytes();
    queue_.push_back(std::move(change));
  }
  writer_.Schedule();
}

Status BufferedStore::Clear() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !is_writing_; });
  queue_.clear();
  queued_bytes_ = 0;
  error_ = Status::Ok();
  changed_.notify_all();
  return store_->Clear();
}

Status BufferedStore::Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                           std::vector<char>* records, int64_t* next) const {
  const Changes stuck = StuckChanges();
  if (stuck.empty()) return store_->Walk(cursor, max_rows, keys, records, next);
  // What is stuck comes first, then the store without what the changes replace.
  const auto bytes = static_cast<size_t>(record_bytes());
  if (cursor == 0) {
    for (const int64_t key : LastKeys(stuck, true)) {
      const char* record = nullptr;
      (void)FindLast(stuck, key, &record);
      keys->push_back(key);
      records->insert(records->end(), record, record + bytes);
    }
    *next = 1;
    return Status::Ok();
  }
  std::vector<int64_t> walked;
  std::vector<char> walked_records;
  KERAS_SPARSE_RETURN_IF_ERROR(store_->Walk(cursor - 1, max_rows, &walked, &walked_records, next));
  if (*next >= 0) ++*next;
  for (size_t i = 0; i < walked.size(); ++i) {
    const char* replaced = nullptr;
    if (FindLast(stuck, walked[i], &replaced)) continue;
    keys->push_back(walked[i]);
    const char* record = walked_records.data() + i * bytes;
    records->insert(records->end(), record, record + bytes);
  }
  return Status::Ok();
}

}  // namespace keras_sparse
