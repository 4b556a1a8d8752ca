// Records of lower tiers that lookups have read, or a stage ahead of them, kept for the update.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_STAGED_RECORDS_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_STAGED_RECORDS_H_

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <set>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/index/hash_index.h"
#include "ops/core/stores/record_batch.h"

namespace keras_sparse {

// A training step looks its rows up and then updates them: what the lookup has read need not be
// read again. A staged record is what the lower tiers have: once the record of a key changes or
// goes there, Drop or Clear must be called.
//
// Held by a std::shared_ptr, as who holds a batch may outlive it.
//
// Thread safety: every method may be called from any thread.
class StagedRecords : public std::enable_shared_from_this<StagedRecords> {
 public:
  using Batches = std::vector<std::shared_ptr<const RecordBatch>>;
  // While it lives, the records of a batch do not go to make room for others; then they are the
  // last to go.
  using Hold = std::shared_ptr<const void>;

  // A read of lower tiers that goes on while they may change: it begins with this object, and Add
  // then leaves out what has changed since.
  class Reading {
   public:
    explicit Reading(StagedRecords* staged);
    ~Reading();
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    friend class StagedRecords;
    StagedRecords* staged_;
    int64_t begin_;       // in the log of drops
    int64_t num_clears_;  // before it
  };

  StagedRecords() = default;

  // Keys that are staged already keep their record. The oldest batches that no lookup holds go
  // where there are too many.
  void Add(std::shared_ptr<const RecordBatch> batch);
  Hold Add(std::shared_ptr<const RecordBatch> batch, const Reading& reading);

  // The staged record of each key, or null. They are good as long as `found_in` lives, to which
  // their batches are added.
  std::vector<const float*> Find(const std::vector<int64_t>& keys, Batches* found_in) const;

  void Drop(const int64_t* keys, int64_t n);
  void Clear();

  int64_t bytes() const;

 private:
  struct Slot {
    std::shared_ptr<const RecordBatch> batch;
    bool is_held;
    std::weak_ptr<const void> hold;
    int64_t num_staged = 0;  // of its records
  };
  struct Entry {
    const float* record;
    std::list<Slot>::iterator slot;
  };

  // Finds the batches that are held no more.
  void Release();

  template <typename IsLeftOut>
  void Stage(std::shared_ptr<const RecordBatch> batch, const Hold& hold,
             const IsLeftOut& is_left_out) REQUIRES(mutex_);
  void DropKey(int64_t key) REQUIRES(mutex_);
  void DropSlot(std::list<Slot>::iterator slot) REQUIRES(mutex_);
  void MakeRoom() REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::list<Slot> slots_ GUARDED_BY(mutex_);  // the oldest first
  HashIndex index_ GUARDED_BY(mutex_){0};     // key -> its place in entries_
  std::vector<Entry> entries_ GUARDED_BY(mutex_);
  std::vector<uint32_t> free_entries_ GUARDED_BY(mutex_);
  int64_t bytes_ GUARDED_BY(mutex_) = 0;

  // What reads that go on need to know.
  std::multiset<int64_t> readings_ GUARDED_BY(mutex_);  // where each began
  // Keys that were dropped since the first of them began.
  std::deque<int64_t> log_ GUARDED_BY(mutex_);
  int64_t log_begin_ GUARDED_BY(mutex_) = 0;  // how many keys have left the log
  int64_t num_clears_ GUARDED_BY(mutex_) = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_STAGED_RECORDS_H_
