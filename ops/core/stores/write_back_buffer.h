// A RowStore that is written in the background.
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

// Put and Erase queue what they were given and return; a thread of the pool makes the changes in
// the store below, in their order and each in one call, so that the store comes to the same state
// as without the queue. Get looks into the queue first. Put waits where the queue is longer than
// `max_queued_bytes`; a change that is longer by itself waits until it is the only one.
//
// A change that fails stays in the queue with those after it, and nothing is lost. The next Put
// tries again, and fails with the error, before it takes anything, if that does not help; an Erase
// tries again too. What was to be erased after the change is erased before it then: those rows may
// take the room that it lacks, or be in the change itself, which goes without them. Walk waits
// until the queue is empty, and sees through it where it is stuck.
//
// With the object goes the store, and what is queued is dropped.
//
// REQUIRES: Put, Erase and Clear come one at a time, as in a table they do.
class WriteBackBuffer : public RowStore {
 public:
  WriteBackBuffer(std::unique_ptr<RowStore> store, BackgroundPool* pool, int64_t max_queued_bytes);

  const char* tier() const override { return store_->tier(); }
  int64_t record_bytes() const override { return store_->record_bytes(); }
  // With what is queued.
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
  // With nothing queued: what is stuck is tried once more.
  Status Compact() override {
    KERAS_SPARSE_RETURN_IF_ERROR(TryToWrite());
    return store_->Compact();
  }
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override;
  // With nothing queued; the error of what is stuck.
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

  // Makes the first change. Returns whether there are more to make.
  bool MakeNextChange();
  // Waits until nothing is queued, or what is cannot be written. Returns whether it is the latter.
  bool WaitUntilWritten() const;
  // The same, but tries once more to write what is stuck.
  Status TryToWrite();
  // Waits until the queue has room for a change, or is empty.
  Status WaitForRoom(int64_t bytes);
  //   is_there  (n), whether each key of the change is there before it
  void Enqueue(const std::shared_ptr<Change>& change, const bool* is_there);
  int64_t BytesOf(const Change& change) const;
  // Calls use(i, record) for each key that is queued, with a null record if it is erased there.
  // Returns the places of the other keys.
  template <typename Use>
  std::vector<int64_t> VisitQueued(const int64_t* keys, int64_t n, const Use& use) const;

  bool IsStuck() const REQUIRES(mutex_) { return !error_.ok(); }
  // The entry that has a number in the index.
  uint64_t EntryOf(uint32_t number) const REQUIRES(mutex_);
  // Makes a change of the records of the first one that no later one replaces or erases.
  Status DropReplaced(const Change& change, std::shared_ptr<const Change>* left_over) const
      REQUIRES(mutex_);
  // What the queue leaves of a key: false if it does not have the key, a null record if it is
  // erased there.
  bool FindQueued(int64_t key, const char** record) const REQUIRES(mutex_);

  const std::unique_ptr<RowStore> store_;
  const int64_t max_queued_bytes_;

  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  std::deque<std::shared_ptr<const Change>> queue_ GUARDED_BY(mutex_);
  // Entries so far: keys of changes, numbered as they come.
  uint64_t num_queued_ GUARDED_BY(mutex_) = 0;
  // Key -> its last entry, as a number of 31 bits.
  HashIndex newest_ GUARDED_BY(mutex_){0};
  int64_t queued_bytes_ GUARDED_BY(mutex_) = 0;
  int64_t num_rows_ GUARDED_BY(mutex_) = 0;     // once all changes are made
  bool is_writing_ GUARDED_BY(mutex_) = false;  // the first change
  // Of the first change; nothing is written until it is cleared.
  Status error_ GUARDED_BY(mutex_);
  bool was_stuck_ GUARDED_BY(mutex_) = false;  // since the queue was empty

  BackgroundTask writer_;  // last: it ends before what it works with
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_WRITE_BACK_BUFFER_H_
