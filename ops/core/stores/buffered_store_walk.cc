// BufferedStore: its rows in pieces, with what is stuck in the queue.
#include "ops/core/stores/buffered_store.h"
#include "ops/core/base/hash.h"

namespace keras_sparse {

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
