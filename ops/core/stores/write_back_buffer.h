// WriteBackBuffer: a RowStore that is written in the background.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_WRITE_BACK_BUFFER_H_
#define KERAS_SPARSE_OPS_CORE_STORES_WRITE_BACK_BUFFER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/base/background_pool.h"
#include "ops/core/base/mutex.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/stores/row_store.h"

namespace keras_sparse {

// Put and Erase queue their changes and return. A thread of the pool applies the changes to the
// store below, in order and each in one call. So the store reaches the same state as without the
// queue. Get looks into the queue first. Put waits while the queue is longer than
// `max_queued_bytes`; a change larger than that waits until the queue is empty.
//
// A failed change stays in the queue with those after it, so nothing is lost. The next Put retries;
// if that fails again, Put returns the error before it takes anything. An Erase also retries. On a
// retry, keys that were erased later in the queue are erased first: those rows may use the room
// that the change lacks, or be part of the change, which is then written without them. Walk waits
// until the queue is empty; if the queue is stuck, it merges the queue with the store.
//
// The destructor drops queued changes with the store.
//
// REQUIRES: Put, Erase and Clear do not overlap; a table's lock ensures this
class WriteBackBuffer : public RowStore {
 public:
  WriteBackBuffer(std::unique_ptr<RowStore> store, BackgroundPool* pool, int64_t max_queued_bytes);

  const char* tier() const override { return store_->tier(); }
  int64_t record_bytes() const override { return store_->record_bytes(); }
  // Includes queued rows.
  int64_t num_rows() const override;
  int64_t bytes() const override { return store_->bytes(); }
  int64_t memory_bytes() const override;
  int64_t compacted_bytes() const override { return store_->compacted_bytes(); }
  void Contains(const int64_t* keys, int64_t n, bool* found) const override;
  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override;
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status PutOwned(const int64_t* keys, int64_t n, std::unique_ptr<char[]> records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  Status Clear() override;
  Status Flush() override;
  // First writes the queue, and retries a failed change.
  Status Compact() override {
    KERAS_SPARSE_RETURN_IF_ERROR(TryToWrite());
    return store_->Compact();
  }
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override;
  // First writes the queue; returns the error of a failed change.
  Status LinkFiles(const std::string& path_prefix, std::vector<LinkedFile>* files) override {
    KERAS_SPARSE_RETURN_IF_ERROR(Flush());
    return store_->LinkFiles(path_prefix, files);
  }
  Status WalkUnlinked(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                      std::vector<char>* records, int64_t* next) const override {
    return store_->WalkUnlinked(cursor, max_rows, keys, records, next);
  }
  bool links_all() const override { return store_->links_all(); }

 private:
  // One call of Put, or of Erase, which has no records.
  struct Change;

  // Applies the first change. Returns whether more are queued.
  bool MakeNextChange();
  // Waits until the queue is empty or stuck. Returns whether it is stuck.
  bool WaitUntilWritten() const;
  // As WaitUntilWritten, but retries a stuck change once.
  Status TryToWrite();
  // Waits until the queue has room for a change, or is empty.
  Status WaitForRoom(int64_t bytes);
  //   is_there  (n), whether each key of the change exists before it
  void Enqueue(const std::shared_ptr<Change>& change, const bool* is_there);
  int64_t BytesOf(const Change& change) const;
  // Calls use(i, record) for each queued key, with a null record if it is erased there. Returns the
  // positions of the other keys.
  template <typename Use>
  std::vector<int64_t> VisitQueued(const int64_t* keys, int64_t n, const Use& use) const;

  bool IsStuck() const REQUIRES(mutex_) { return !error_.ok(); }
  // Returns the entry of an index number.
  uint64_t EntryOf(uint32_t number) const REQUIRES(mutex_);
  // Builds a change from the first change's records that no later change replaces or erases.
  Status DropReplaced(const Change& change, std::shared_ptr<const Change>* left_over) const
      REQUIRES(mutex_);
  // Finds a key in the queue. Returns false if the queue does not have the key; sets a null record
  // if it is erased there.
  bool FindQueued(int64_t key, const char** record) const REQUIRES(mutex_);

  const std::unique_ptr<RowStore> store_;
  const int64_t max_queued_bytes_;

  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  std::deque<std::shared_ptr<const Change>> queue_ GUARDED_BY(mutex_);
  // Number of entries so far; entries are keys of changes, numbered in order.
  uint64_t num_queued_ GUARDED_BY(mutex_) = 0;
  // Key -> its last entry, as a 31-bit number.
  HashIndex newest_ GUARDED_BY(mutex_){0};
  int64_t queued_bytes_ GUARDED_BY(mutex_) = 0;
  int64_t num_rows_ GUARDED_BY(mutex_) = 0;     // after all changes are made
  bool is_writing_ GUARDED_BY(mutex_) = false;  // the first change is being written
  // Error of the first change; nothing is written until it is cleared.
  Status error_ GUARDED_BY(mutex_);
  bool was_stuck_ GUARDED_BY(mutex_) = false;  // since the queue was last empty

  BackgroundTask writer_;  // last, so that it stops before the members it uses
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_WRITE_BACK_BUFFER_H_
