#include "ops/core/stores/write_back_buffer.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "ops/core/base/bytes.h"
#include "ops/core/base/hash.h"

namespace keras_sparse {
namespace {

// Numbers of entries wrap here, below the value that an index uses for none.
constexpr uint64_t kNumberMask = 0x7FFFFFFF;

}  // namespace

struct WriteBackBuffer::Change {
  Change(const int64_t* first_key, int64_t n) : keys(first_key, first_key + n) {}

  int64_t size() const { return static_cast<int64_t>(keys.size()); }
  bool is_erasure() const { return records == nullptr; }

  std::vector<int64_t> keys;
  std::unique_ptr<char[]> records;
  uint64_t begin = 0;  // number of entries in all earlier changes
};

WriteBackBuffer::WriteBackBuffer(std::unique_ptr<RowStore> store, BackgroundPool* pool,
                                 int64_t max_queued_bytes)
    : store_(std::move(store)),
      max_queued_bytes_(max_queued_bytes),
      num_rows_(store_->num_rows()),
      writer_(
          pool, [this] { return MakeNextChange(); },
          [this] {
            const MutexLock lock(mutex_);
            error_ = FailedPrecondition("rows are not written in the background any more");
            changed_.NotifyAll();
          }) {}

bool WriteBackBuffer::MakeNextChange() {
  const MutexLock lock(mutex_);
  if (queue_.empty() || IsStuck()) return false;
  const std::shared_ptr<const Change> change = queue_.front();
  std::shared_ptr<const Change> left = change;
  std::vector<int64_t> erased;  // before the change
  Status status;
  if (was_stuck_ && !change->is_erasure()) {
    status = DropReplaced(*change, &left);
    for (const auto& later : queue_) {
      if (later->is_erasure()) erased.insert(erased.end(), later->keys.begin(), later->keys.end());
    }
  }
  is_writing_ = true;
  {
    const MutexUnlock unlock(mutex_);
    if (status.ok() && !erased.empty()) {
      status = store_->Erase(erased.data(), static_cast<int64_t>(erased.size()));
    }
    if (status.ok() && left->size() > 0) {
      status = left->is_erasure()
                   ? store_->Erase(left->keys.data(), left->size())
                   : store_->Put(left->keys.data(), left->size(), left->records.get());
    }
  }
  is_writing_ = false;
  if (!status.ok() && !was_stuck_) {
    was_stuck_ = true;
    const auto is_erasure = [](const auto& each) { return each->is_erasure(); };
    // Retry immediately, after applying the erasures.
    if (std::any_of(queue_.begin(), queue_.end(), is_erasure)) return true;
  }
  error_ = status;
  if (status.ok()) {
    queued_bytes_ -= BytesOf(*change);
    if (queue_.size() == 1) {
      newest_ = HashIndex(0);
    } else {
      for (int64_t i = 0; i < change->size(); ++i) {
        const int64_t key = change->keys[static_cast<size_t>(i)];
        const uint64_t hash = HashKey(key);
        newest_.PrefetchAhead(change->keys.data(), change->size(), i);
        const uint32_t number = newest_.Find(hash, key);
        if (number != HashIndex::kNoRow && EntryOf(number) < change->begin + change->keys.size()) {
          (void)newest_.Erase(hash, key);
        }
      }
    }
    queue_.pop_front();
    if (queue_.empty()) was_stuck_ = false;
  }
  changed_.NotifyAll();
  return !queue_.empty() && !IsStuck();
}

Status WriteBackBuffer::DropReplaced(const Change& change,
                                     std::shared_ptr<const Change>* left_over) const {
  const int64_t bytes = record_bytes();
  auto left = std::make_shared<Change>(nullptr, 0);
  KERAS_SPARSE_RETURN_IF_ERROR(AllocateBytes(change.size() * bytes, &left->records));
  for (int64_t i = 0; i < change.size(); ++i) {
    const int64_t key = change.keys[static_cast<size_t>(i)];
    const uint32_t number = newest_.Find(HashKey(key), key);
    if (EntryOf(number) != change.begin + static_cast<uint64_t>(i)) continue;
    std::memcpy(left->records.get() + left->size() * bytes, change.records.get() + i * bytes,
                static_cast<size_t>(bytes));
    left->keys.push_back(key);
  }
  *left_over = std::move(left);
  return Status::Ok();
}

bool WriteBackBuffer::WaitUntilWritten() const {
  const MutexLock lock(mutex_);
  while (!queue_.empty() && !IsStuck()) changed_.Wait(mutex_);
  return !queue_.empty();
}

Status WriteBackBuffer::TryToWrite() {
  {
    const MutexLock lock(mutex_);
    error_ = Status::Ok();
  }
  writer_.Schedule();
  (void)WaitUntilWritten();
  const MutexLock lock(mutex_);
  return error_;
}

Status WriteBackBuffer::Flush() {
  (void)WaitUntilWritten();
  {
    const MutexLock lock(mutex_);
    KERAS_SPARSE_RETURN_IF_ERROR(error_);
  }
  return store_->Flush();
}

int64_t WriteBackBuffer::BytesOf(const Change& change) const {
  return change.size() * (8 + (change.is_erasure() ? 0 : record_bytes()));
}

uint64_t WriteBackBuffer::EntryOf(uint32_t number) const {
  const uint64_t first = queue_.front()->begin;
  return first + ((number - first) & kNumberMask);
}

bool WriteBackBuffer::FindQueued(int64_t key, const char** record) const {
  const uint32_t number = newest_.Find(HashKey(key), key);
  if (number == HashIndex::kNoRow) return false;
  const uint64_t entry = EntryOf(number);
  const auto after =
      std::upper_bound(queue_.begin(), queue_.end(), entry,
                       [](uint64_t e, const auto& change) { return e < change->begin; });
  const Change& change = **std::prev(after);
  const auto place = static_cast<int64_t>(entry - change.begin);
  *record = change.is_erasure() ? nullptr : change.records.get() + place * record_bytes();
  return true;
}

int64_t WriteBackBuffer::num_rows() const {
  const MutexLock lock(mutex_);
  return num_rows_;
}

int64_t WriteBackBuffer::memory_bytes() const {
  const int64_t bytes = store_->memory_bytes();
  const MutexLock lock(mutex_);
  return bytes + queued_bytes_ + newest_.bytes();
}

template <typename Use>
std::vector<int64_t> WriteBackBuffer::VisitQueued(const int64_t* keys, int64_t n,
                                                  const Use& use) const {
  std::vector<int64_t> others;
  const MutexLock lock(mutex_);
  for (int64_t i = 0; i < n; ++i) {
    newest_.PrefetchAhead(keys, n, i);
    const char* record = nullptr;
    if (FindQueued(keys[i], &record)) {
      use(i, record);
    } else {
      others.push_back(i);
    }
  }
  return others;
}

void WriteBackBuffer::Contains(const int64_t* keys, int64_t n, bool* found) const {
  const std::vector<int64_t> places =
      VisitQueued(keys, n, [&](int64_t i, const char* record) { found[i] = record != nullptr; });
  std::vector<int64_t> others;
  others.reserve(places.size());
  for (const int64_t place : places) others.push_back(keys[place]);
  const auto is_below = std::make_unique<bool[]>(others.size());
  store_->Contains(others.data(), static_cast<int64_t>(others.size()), is_below.get());
  for (size_t i = 0; i < others.size(); ++i) found[places[i]] = is_below[i];
}

Status WriteBackBuffer::GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const {
  // Before the store is asked: keys that are not queued now are in the store.
  const std::vector<int64_t> others = VisitQueued(keys, n, [&](int64_t i, const char* record) {
    found[i] = record != nullptr;
    if (found[i]) std::memcpy(to[i], record, static_cast<size_t>(record_bytes()));
  });
  if (static_cast<int64_t>(others.size()) == n) return store_->GetTo(keys, n, to, found);
  return store_->GetPlaces(others, keys, to, found);
}

Status WriteBackBuffer::Put(const int64_t* keys, int64_t n, const char* records) {
  if (n == 0) return Status::Ok();
  std::unique_ptr<char[]> copied;
  KERAS_SPARSE_RETURN_IF_ERROR(AllocateBytes(n * record_bytes(), &copied));
  std::memcpy(copied.get(), records, static_cast<size_t>(n * record_bytes()));
  return PutOwned(keys, n, std::move(copied));
}

Status WriteBackBuffer::PutOwned(const int64_t* keys, int64_t n, std::unique_ptr<char[]> records) {
  if (n == 0) return Status::Ok();
  auto change = std::make_shared<Change>(keys, n);
  change->records = std::move(records);
  KERAS_SPARSE_RETURN_IF_ERROR(WaitForRoom(BytesOf(*change)));
  const auto is_there = std::make_unique<bool[]>(static_cast<size_t>(n));
  Contains(keys, n, is_there.get());
  Enqueue(change, is_there.get());
  return Status::Ok();
}

Status WriteBackBuffer::Erase(const int64_t* keys, int64_t n) {
  const auto is_there = std::make_unique<bool[]>(static_cast<size_t>(n));
  Contains(keys, n, is_there.get());
  if (std::find(is_there.get(), is_there.get() + n, true) == is_there.get() + n) {
    return Status::Ok();
  }
  bool is_stuck = false;
  {
    const MutexLock lock(mutex_);
    is_stuck = IsStuck();
  }
  Enqueue(std::make_shared<Change>(keys, n), is_there.get());
  if (is_stuck) (void)TryToWrite();  // there may be room now; otherwise the next Put fails
  return Status::Ok();
}

Status WriteBackBuffer::WaitForRoom(int64_t bytes) {
  const MutexLock lock(mutex_);
  if (IsStuck()) {
    const MutexUnlock unlock(mutex_);
    KERAS_SPARSE_RETURN_IF_ERROR(TryToWrite());
  }
  while (!IsStuck() && !queue_.empty() && queued_bytes_ + bytes > max_queued_bytes_) {
    changed_.Wait(mutex_);
  }
  return error_;
}

void WriteBackBuffer::Enqueue(const std::shared_ptr<Change>& change, const bool* is_there) {
  {
    const MutexLock lock(mutex_);
    const int64_t n = change->size();
    if (queue_.empty()) newest_ = HashIndex(0, n);
    change->begin = num_queued_;
    num_queued_ += change->keys.size();
    queued_bytes_ += BytesOf(*change);
    queue_.push_back(change);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t key = change->keys[static_cast<size_t>(i)];
      const auto number = (change->begin + static_cast<uint64_t>(i)) & kNumberMask;
      newest_.PrefetchAhead(change->keys.data(), n, i);
      const uint32_t old = newest_.Exchange(HashKey(key), key, static_cast<uint32_t>(number));
      if (old != HashIndex::kNoRow && EntryOf(old) >= change->begin) continue;  // repeated
      num_rows_ += change->is_erasure() ? -int64_t{is_there[i]} : int64_t{!is_there[i]};
    }
  }
  writer_.Schedule();
}

Status WriteBackBuffer::Clear() {
  const MutexLock lock(mutex_);
  while (is_writing_) changed_.Wait(mutex_);
  // Under the lock, so that nothing is written in between.
  KERAS_SPARSE_RETURN_IF_ERROR(store_->Clear());
  queue_.clear();
  newest_ = HashIndex(0);
  queued_bytes_ = 0;
  num_rows_ = 0;
  error_ = Status::Ok();
  was_stuck_ = false;
  changed_.NotifyAll();
  return Status::Ok();
}

Status WriteBackBuffer::Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                             std::vector<char>* records, int64_t* next) const {
  if (!WaitUntilWritten()) return store_->Walk(cursor, max_rows, keys, records, next);
  // Queued rows come first, then the store's rows that the queue does not replace.
  const auto bytes = static_cast<size_t>(record_bytes());
  const auto append = [&](int64_t key, const char* record) {
    keys->push_back(key);
    records->insert(records->end(), record, record + bytes);
  };
  if (cursor == 0) {
    const MutexLock lock(mutex_);
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
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < walked.size(); ++i) {
    const char* replaced = nullptr;
    if (!FindQueued(walked[i], &replaced)) append(walked[i], walked_records.data() + i * bytes);
  }
  return Status::Ok();
}

}  // namespace keras_sparse
