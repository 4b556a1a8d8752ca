// DynamicHbmStore: a dynamic table in a GPU's memory, with any int64 keys.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_HBM_DYNAMIC_HBM_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_HBM_DYNAMIC_HBM_STORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/index/hbm_index.h"
#include "ops/core/record/hbm_records.h"
#include "ops/core/stores/hbm/hbm_store.h"
#include "ops/core/stores/hbm/hbm_uses.h"

namespace keras_sparse {

// The index maps a key to its row. Each row also stores its key, so that a walk follows the numbers
// of rows, which depend only on the calls made.
class DynamicHbmStore : public HbmStore {
 public:
  static Status Open(Device* device, int64_t record_bytes, const HbmLimit& limit,
                     std::unique_ptr<HbmStore>* store);

  bool is_static() const override { return false; }
  HbmIndexView index_view() const override;
  int64_t num_rows() const override;
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  // Frees all memory except that of pieces.
  Status Clear() override;
  int64_t Room() const override;
  Status Reserve(int64_t n) override;
  Status Create(const int64_t* keys, int64_t n, DeviceArray<uint32_t>* rows) override;
  Status Initialize(const InitialRows& /*initial_rows*/, const RecordLayout& /*layout*/,
                    int64_t /*step*/) override {
    return Clear();
  }
  Status Relayout(const RecordLayout& from, const RecordLayout& to, int64_t step) override;
  void BeginUpdate() override;
  Status ReadExcess(Excess* excess) override;

 private:
  DynamicHbmStore(Device* device, int64_t record_bytes, const HbmLimit& limit);

  void NoteUses(const uint32_t* rows, int64_t n) override REQUIRES(mutex_);
  int64_t MostRows(int64_t record_bytes) const override;
  RecordsView KeysView() const override REQUIRES_SHARED(mutex_) { return keys_.view(); }
  Status FindRows(const int64_t* keys, int64_t n, uint32_t* rows) const override
      REQUIRES_SHARED(mutex_);
  int64_t NextRows(int64_t cursor, int64_t max_rows, std::vector<uint32_t>* rows) const override
      REQUIRES_SHARED(mutex_);
  bool IsInUse(uint32_t row) const override REQUIRES_SHARED(mutex_) { return is_used_[row]; }
  Status KeysOf(const std::vector<uint32_t>& rows, int64_t* keys) const override
      REQUIRES_SHARED(mutex_);
  int64_t IndexBytes() const override REQUIRES_SHARED(mutex_);
  int64_t IndexMemoryBytes() const override REQUIRES_SHARED(mutex_);

  int64_t size() const REQUIRES_SHARED(mutex_) { return end_ - static_cast<int64_t>(free_.size()); }
  // Allocates everything that n more rows need.
  Status Grow(int64_t n) REQUIRES(mutex_);
  Status GrowTo(int64_t end, int64_t n) REQUIRES(mutex_);
  // As Create, with keys and rows in host memory; needs no further memory.
  Status CreateRows(const int64_t* keys, int64_t n, std::vector<uint32_t>* rows) REQUIRES(mutex_);
  // Returns the freed rows that n new keys reuse, most recently freed first.
  std::vector<uint32_t> FreedFor(int64_t n) const REQUIRES_SHARED(mutex_);
  // Enqueues work on the device to write the index entries and keys of new rows.
  //   keys, rows  (n) in the GPU's memory
  // REQUIRES: Grow
  Status InsertRows(const int64_t* keys, const uint32_t* rows, int64_t n) REQUIRES(mutex_);
  // Marks rows as used: `num_freed` freed ones, and `n` in total.
  void TakeRows(int64_t num_freed, int64_t n) REQUIRES(mutex_);
  Status EraseDistinct(const std::vector<int64_t>& keys) REQUIRES(mutex_);

  // Returns the rows to demote if there are more than the limit allows; among equally cold rows,
  // those with the lowest keys.
  Status FindExcess(std::vector<int64_t>* keys, std::vector<uint32_t>* rows) REQUIRES(mutex_);

  const HbmLimit limit_;
  HbmIndex index_ GUARDED_BY(mutex_);
  HbmRecords keys_ GUARDED_BY(mutex_);  // the key of each row
  // Rows from here on were never used; rows below that are free again are in free_.
  int64_t end_ GUARDED_BY(mutex_) = 0;
  std::vector<uint32_t> free_ GUARDED_BY(mutex_);
  std::vector<bool> is_used_ GUARDED_BY(mutex_);  // at least (end_)
  // Set over lower tiers; else null.
  std::unique_ptr<HbmUses> uses_ GUARDED_BY(mutex_);
  bool has_been_full_ GUARDED_BY(mutex_) = false;  // with records of this size
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_HBM_DYNAMIC_HBM_STORE_H_
