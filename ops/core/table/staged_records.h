// StagedRecords: records read from lower tiers by lookups or a prefetch stage, kept for the update.
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

// A training step looks up its rows and then updates them. Staging spares the update a second read
// of the same records. A staged record must equal the record in the lower tiers: call Drop or Clear
// once the record of a key changes or is demoted.
//
// Owned by a std::shared_ptr, because the holder of a batch may outlive the table.
//
// Thread safety: every method may be called from any thread.
class StagedRecords : public std::enable_shared_from_this<StagedRecords> {
 public:
  using Batches = std::vector<std::shared_ptr<const RecordBatch>>;
  // While a Hold lives, the records of its batch are not dropped to make room. Afterwards they are
  // the last to be dropped.
  using Hold = std::shared_ptr<const void>;

  // A read of lower tiers that may change meanwhile. Create the object before the read; Add then
  // leaves out records that changed since.
  class Reading {
   public:
    explicit Reading(StagedRecords* staged);
    ~Reading();
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    friend class StagedRecords;
    StagedRecords* staged_;
    int64_t begin_;       // position in the log of drops
    int64_t num_clears_;  // before the read
  };

  StagedRecords() = default;

  // Keys that are already staged keep their record. If there are too many batches, the oldest ones
  // that no lookup holds are dropped.
  void Add(std::shared_ptr<const RecordBatch> batch);
  Hold Add(std::shared_ptr<const RecordBatch> batch, const Reading& reading);

  // Returns the staged record of each key, or null. Appends the batches of these records to
  // `found_in`, which keeps them valid.
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

  // Marks batches whose Hold has ended as no longer held.
  void Release();

  template <typename IsLeftOut>
  void Stage(std::shared_ptr<const RecordBatch> batch, const Hold& hold,
             const IsLeftOut& is_left_out) REQUIRES(mutex_);
  void DropKey(int64_t key) REQUIRES(mutex_);
  void DropSlot(std::list<Slot>::iterator slot) REQUIRES(mutex_);
  void MakeRoom() REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::list<Slot> slots_ GUARDED_BY(mutex_);  // oldest first
  HashIndex index_ GUARDED_BY(mutex_){0};     // key -> position in entries_
  std::vector<Entry> entries_ GUARDED_BY(mutex_);
  std::vector<uint32_t> free_entries_ GUARDED_BY(mutex_);
  int64_t bytes_ GUARDED_BY(mutex_) = 0;

  // State for reads in progress.
  std::multiset<int64_t> readings_ GUARDED_BY(mutex_);  // where each began in the log
  // Keys dropped since the first of these reads began.
  std::deque<int64_t> log_ GUARDED_BY(mutex_);
  int64_t log_begin_ GUARDED_BY(mutex_) = 0;  // number of keys removed from the log
  int64_t num_clears_ GUARDED_BY(mutex_) = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_STAGED_RECORDS_H_
