#include "ops/core/buffered_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/core/hash.h"

namespace keras_sparse {
namespace {

// Numbers of changes wrap here, below what an index takes for none.
constexpr uint32_t kNumberMask = 0x7FFFFFFFu;

}  // namespace

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
  // Whether this place has the last record of its key.
  bool IsLast(size_t place) const {
    return index.Find(HashKey(keys[place]), keys[place]) == static_cast<uint32_t>(place);
  }

  std::vector<int64_t> keys;
  std::vector<char> records;
  HashIndex index{0};  // key -> its last place in `keys`
};

BufferedStore::BufferedStore(std::unique_ptr<RowStore> store, BackgroundPool* pool,
                             int64_t max_queued_bytes)
    : store_(std::move(store)),
      max_queued_bytes_(max_queued_bytes),
      num_rows_(store_->num_rows()),
      writer_(
          pool, [this] { return MakeNextChange(); },
          [this] {
            std::lock_guard<std::mutex> lock(mutex_);
            error_ = FailedPrecondition("rows are not written in the background any more");
            changed_.notify_all();
          }) {}

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
    for (const int64_t key : change->keys) {
      const uint64_t hash = HashKey(key);
      if (newest_.Find(hash, key) == first_number_) (void)newest_.Erase(hash, key);
    }
    first_number_ = (first_number_ + 1) & kNumberMask;
    queued_bytes_ -= change->bytes();
    queue_.pop_front();
    if (queue_.empty()) newest_ = HashIndex(0);
  }
  changed_.notify_all();
  return !queue_.empty() && !IsStuck();
}

bool BufferedStore::WaitUntilWritten() const {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() || IsStuck(); });
  return !queue_.empty();
}

Status BufferedStore::TryToWrite() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    error_ = Status::Ok();
  }
  writer_.Schedule();
  (void)WaitUntilWritten();
  std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

Status BufferedStore::Flush() {
  (void)WaitUntilWritten();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    KERAS_SPARSE_RETURN_IF_ERROR(error_);
  }
  return store_->Flush();
}

bool BufferedStore::FindQueued(int64_t key, const char** record) const {
  const uint32_t number = newest_.Find(HashKey(key), key);
  if (number == HashIndex::kNoRow) return false;
  const Change& change = *queue_[(number - first_number_) & kNumberMask];
  const uint32_t place = change.index.Find(HashKey(key), key);
  *record = change.is_erasure() ? nullptr : change.records.data() + place * record_bytes();
  return true;
}

int64_t BufferedStore::num_rows() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return num_rows_;
}

int64_t BufferedStore::memory_bytes() const {
  const int64_t bytes = store_->memory_bytes();
  std::lock_guard<std::mutex> lock(mutex_);
  return bytes + queued_bytes_ + newest_.bytes();
}

void BufferedStore::Contains(const int64_t* keys, int64_t n, bool* found) const {
  std::vector<int64_t> others;  // that are not queued
  std::vector<int64_t> places;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (int64_t i = 0; i < n; ++i) {
      const char* record = nullptr;
      if (FindQueued(keys[i], &record)) {
        found[i] = record != nullptr;
      } else {
        others.push_back(keys[i]);
        places.push_back(i);
      }
    }
  }
  const auto is_below = std::make_unique<bool[]>(others.size());
  store_->Contains(others.data(), static_cast<int64_t>(others.size()), is_below.get());
  for (size_t i = 0; i < others.size(); ++i) found[places[i]] = is_below[i];
}

Status BufferedStore::Get(const int64_t* keys, int64_t n, char* records, bool* found) const {
  const auto bytes = static_cast<size_t>(record_bytes());
  std::vector<int64_t> others;  // places of the keys that are not queued
  {
    // Before the store is asked: what is not queued now is there.
    std::lock_guard<std::mutex> lock(mutex_);
    for (int64_t i = 0; i < n; ++i) {
      const char* record = nullptr;
      if (!FindQueued(keys[i], &record)) {
        others.push_back(i);
        continue;
      }
      found[i] = record != nullptr;
      if (found[i]) std::memcpy(records + static_cast<size_t>(i) * bytes, record, bytes);
    }
  }
  if (static_cast<int64_t>(others.size()) == n) return store_->Get(keys, n, records, found);
  return store_->GetPlaces(others, keys, records, found);
}

void BufferedStore::CountKeys(const Change& change, int64_t* missing, int64_t* present) const {
  const auto is_there = std::make_unique<bool[]>(change.keys.size());
  Contains(change.keys.data(), static_cast<int64_t>(change.keys.size()), is_there.get());
  *missing = *present = 0;
  for (size_t i = 0; i < change.keys.size(); ++i) {
    if (change.IsLast(i)) ++*(is_there[i] ? present : missing);
  }
}

Status BufferedStore::Put(const int64_t* keys, int64_t n, const char* records) {
  if (n == 0) return Status::Ok();
  auto change = std::make_shared<Change>(keys, n);
  change->records.assign(records, records + n * record_bytes());
  KERAS_SPARSE_RETURN_IF_ERROR(WaitForRoom(change->bytes()));
  int64_t missing = 0;
  int64_t present = 0;
  CountKeys(*change, &missing, &present);
  Enqueue(std::move(change), missing);
  return Status::Ok();
}

Status BufferedStore::Erase(const int64_t* keys, int64_t n) {
  if (n == 0) return Status::Ok();
  auto change = std::make_shared<Change>(keys, n);
  int64_t missing = 0;
  int64_t present = 0;
  CountKeys(*change, &missing, &present);
  if (present == 0) return Status::Ok();
  bool is_stuck = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_stuck = IsStuck();
  }
  if (is_stuck) KERAS_SPARSE_RETURN_IF_ERROR(store_->Erase(keys, n));
  Enqueue(std::move(change), -present);
  return Status::Ok();
}

Status BufferedStore::WaitForRoom(int64_t bytes) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (IsStuck()) {
    lock.unlock();
    KERAS_SPARSE_RETURN_IF_ERROR(TryToWrite());
    lock.lock();
  }
  changed_.wait(lock, [&] {
    return IsStuck() || queue_.empty() || queued_bytes_ + bytes <= max_queued_bytes_;
  });
  return error_;
}

void BufferedStore::Enqueue(std::shared_ptr<const Change> change, int64_t added_rows) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto number = (first_number_ + static_cast<uint32_t>(queue_.size())) & kNumberMask;
    for (const int64_t key : change->keys) (void)newest_.Exchange(HashKey(key), key, number);
    queued_bytes_ += change->bytes();
    num_rows_ += added_rows;
    queue_.push_back(std::move(change));
  }
  writer_.Schedule();
}

Status BufferedStore::Clear() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !is_writing_; });
  // Under the lock: nothing is written in between.
  KERAS_SPARSE_RETURN_IF_ERROR(store_->Clear());
  queue_.clear();
  newest_ = HashIndex(0);
  queued_bytes_ = 0;
  num_rows_ = 0;
  error_ = Status::Ok();
  changed_.notify_all();
  return Status::Ok();
}

Status BufferedStore::Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                           std::vector<char>* records, int64_t* next) const {
  if (!WaitUntilWritten()) return store_->Walk(cursor, max_rows, keys, records, next);
  // What is stuck comes first, then the store without what the queue replaces.
  const auto bytes = static_cast<size_t>(record_bytes());
  const auto append = [&](int64_t key, const char* record) {
    keys->push_back(key);
    records->insert(records->end(), record, record + bytes);
  };
  if (cursor == 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int64_t> queued;
    std::vector<uint32_t> numbers;
    (void)newest_.AppendSegments(0, INT64_MAX, &queued, &numbers);
    for (const int64_t key : queued) {
      const char* record = nullptr;
      (void)FindQueued(key, &record);
      if (record != nullptr) append(key, record);
    }
    *next = 1;
    return Status::Ok();
  }
  std::vector<int64_t> walked;
  std::vector<char> walked_records;
  KERAS_SPARSE_RETURN_IF_ERROR(store_->Walk(cursor - 1, max_rows, &walked, &walked_records, next));
  if (*next >= 0) ++*next;
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < walked.size(); ++i) {
    const char* replaced = nullptr;
    if (!FindQueued(walked[i], &replaced)) append(walked[i], walked_records.data() + i * bytes);
  }
  return Status::Ok();
}

}  // namespace keras_sparse
