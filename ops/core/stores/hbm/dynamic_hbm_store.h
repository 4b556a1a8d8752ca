// A dynamic table in a GPU's memory: any int64 key, rows come and go.
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

// The index gives a key's row; beside the record of a row stands its key, so that a walk follows
// the numbers of rows, which depend on nothing but the calls that were made.
class DynamicHbmStore : public HbmStore {
 public:
  static Status Open(Device* device, int64_t record_bytes, const HbmLimit& limit,
                     std::unique_ptr<HbmStore>* store);

  bool is_static() const override { return false; }
  HbmIndexView index_view() const override;
  int64_t num_rows() const override;
  Status Put(const int64_t* keys, int64_t n, const char* records) override;
  Status Erase(const int64_t* keys, int64_t n) override;
  // Gives all memory back but that of pieces.
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
  // All that n more rows need.
  Status Grow(int64_t n) REQUIRES(mutex_);
  Status GrowTo(int64_t end, int64_t n) REQUIRES(mutex_);
  // The same as Create from and into the CPU's memory, which needs no other memory.
  Status CreateRows(const int64_t* keys, int64_t n, std::vector<uint32_t>* rows) REQUIRES(mutex_);
  // The rows that were freed and n new keys get first, the last one first.
  std::vector<uint32_t> FreedFor(int64_t n) const REQUIRES_SHARED(mutex_);
  // Gives the device the work to write what stands beside the records of new rows. REQUIRES: Grow
  //   keys, rows  (n) in the GPU's memory
  Status InsertRows(const int64_t* keys, const uint32_t* rows, int64_t n) REQUIRES(mutex_);
  // They are in use: so many of those that were freed, and so many in all.
  void TakeRows(int64_t num_freed, int64_t n) REQUIRES(mutex_);
  Status EraseDistinct(const std::vector<int64_t>& keys) REQUIRES(mutex_);

  // The rows that leave, if there are more than the limit allows: of equally cold ones those with
  // the lowest keys.
  Status FindExcess(std::vector<int64_t>* keys, std::vector<uint32_t>* rows) REQUIRES(mutex_);

  const HbmLimit limit_;
  HbmIndex index_ GUARDED_BY(mutex_);
  HbmRecords keys_ GUARDED_BY(mutex_);  // the key of each row
  // Rows from here on were never taken, and these below it are free again.
  int64_t end_ GUARDED_BY(mutex_) = 0;
  std::vector<uint32_t> free_ GUARDED_BY(mutex_);
  std::vector<bool> is_used_ GUARDED_BY(mutex_);  // (end_) at least
  // Over lower tiers; else null.
  std::unique_ptr<HbmUses> uses_ GUARDED_BY(mutex_);
  bool has_been_full_ GUARDED_BY(mutex_) = false;  // with records of this size
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_HBM_DYNAMIC_HBM_STORE_H_
