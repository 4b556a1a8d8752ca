// A RowStore that is written in the background.
#ifndef KERAS_SPARSE_OPS_CORE_BUFFERED_STORE_H_
#define KERAS_SPARSE_OPS_CORE_BUFFERED_STORE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/core/background_pool.h"
#include "ops/core/row_store.h"

namespace keras_sparse {

// Put and Erase queue what they were given and return; a thread of the pool makes the changes in
// the store below, in their order and each in one call, so that the store comes to the same state
// as without the queue. Get looks into the queue first. Put waits where the queue is longer than
// `max_queued_bytes`.
//
// A change that fails stays in the queue with those after it, and nothing is lost. The next Put
// tries again, and fails with the error, before it takes anything, if that does not help. What
// needs the queue to be empty (counts, Walk) waits for it, and sees through it where it is stuck.
//
// With the object goes the store, and what is queued is dropped.
class BufferedStore : public RowStore {
 public:
  BufferedStore(std::unique_ptr<RowStore> store, BackgroundPool* pool, int64_t max_queued_bytes);

  const char* tier() const override { return store_->tier(); }
  int64_t record_bytes() const override { return store_->record_bytes(); }
  int64_t num_rows() const override;
  bool is_empty() const override;
  int64_t bytes() const override;
  int64_t memory_bytes() const override;
  int64_t compacted_bytes() const override { return store_->compacted_bytes(); }
  void Contains(const int64_t* keys, int64_t n, bool* found) const override;
  Status Get(const int64_t* keys, int64_t n, char* records, bool* found) const override;
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  Status Clear() override;
  Status Flush() override;
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override;

 private:
  // One call of Put, or of Erase, which has no records.
  struct Change;
  using Changes = std::vector<std::shared_ptr<const Change>>;

  bool IsStuck() const { return !error_.ok(); }
  // Makes the first change. Returns whether there is another one to make.
  bool MakeNextChange();
  Changes Queued() const;
  // What is queued once nothing is being written any more: what cannot be written.
  Changes StuckChanges() const;
  // Until the queue has room for a change, or is empty; tries first to write what is stuck.
  Status WaitForRoom(int64_t bytes);
  void Enqueue(std::shared_ptr<const Change> change);
  // What the changes leave of a key: false if none of them has it, a null record if it is erased.
  bool FindLast(const Changes& changes, int64_t key, const char** record) const;
  // All keys of the changes that FindLast gives a record, or a null record, each once.
  std::vector<int64_t> LastKeys(const Changes& changes, bool with_record) const;

  const std::unique_ptr<RowStore> store_;
  const int64_t max_queued_bytes_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::shared_ptr<const Change>> queue_;
  int64_t queued_bytes_ = 0;
  bool is_writing_ = false;  // the first change
  Status error_;             // of the first change; nothing is written until it is cleared

  BackgroundTask writer_;  // last: it ends before what it works with
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BUFFERED_STORE_H_
