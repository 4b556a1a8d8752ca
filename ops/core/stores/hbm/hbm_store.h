// HbmStore: the rows of a table in a GPU's memory, as a store that the CPU reads and writes.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/ids/cached_row_indices.h"
#include "ops/core/index/hbm_index.h"
#include "ops/core/optimizer/history_on_device.h"
#include "ops/core/optimizer/update_rule.h"
#include "ops/core/record/hbm_records.h"
#include "ops/core/record/initial_rows.h"
#include "ops/core/record/packed_record.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/record/records_view.h"
#include "ops/core/stores/hbm/hbm_changes.h"
#include "ops/core/stores/hbm/hbm_limit.h"
#include "ops/core/stores/hbm/hbm_transfer.h"
#include "ops/core/stores/row_store.h"

namespace keras_sparse {

// A static table uses a StaticHbmStore, a dynamic one a DynamicHbmStore. Steps use the rows in
// place, in kernels that take the views; other callers use it like the stores of other tiers.
//
// A view is valid for work enqueued on the device before the next change of the store. Kernels that
// change records run on their own: the caller ensures that no overlapping call reads half-changed
// records.
class HbmStore : public RowStore {
 public:
  // The device must outlive the store. Returns Unimplemented in a build without CUDA.
  //   num_rows  of a static table, whose records are undefined at first; negative for a dynamic one
  //   limit     of a dynamic table
  static Status Open(Device* device, int64_t num_rows, int64_t record_bytes, const HbmLimit& limit,
                     std::unique_ptr<HbmStore>* store);
  // Implements Open; hbm_store.cu sets it. All else that a build without CUDA calls is virtual.
  using Opener = Status (*)(Device* device, int64_t num_rows, int64_t record_bytes,
                            const HbmLimit& limit, std::unique_ptr<HbmStore>* store);
  static bool SetOpener(Opener opener);

  const char* tier() const override { return "hbm"; }
  int64_t record_bytes() const override { return record_bytes_; }
  // Bytes on the GPU: records, index and everything else.
  int64_t bytes() const override;
  int64_t memory_bytes() const override;
  // If the GPU fails, no key is found.
  void Contains(const int64_t* keys, int64_t n, bool* found) const override;
  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override;
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override;

  // Removes all rows, or resets each row of a static table to its initial values, marked as last
  // updated at `step`.
  //   layout  of the records
  virtual Status Initialize(const InitialRows& initial_rows, const RecordLayout& layout,
                            int64_t step) = 0;
  // Rewrites all records in a new layout; see RecordLayout::LayOut. Needs memory for both
  // meanwhile; after an error nothing has changed.
  virtual Status Relayout(const RecordLayout& from, const RecordLayout& to, int64_t step);

  // Applies missed steps to all records: UpdateRule::CatchUp of each. No record leaves the GPU.
  //   history  the rule's
  virtual Status CatchUp(const UpdateRule& rule, const Rounding& rounding,
                         cuda_impl::HistoryOnDevice* history);

  virtual bool is_static() const = 0;
  RecordsView records_view() const;
  // Returns the key of each row in a dynamic table; no slabs in a static one.
  RecordsView keys_view() const;
  // The index of a dynamic table. In a static table, the key is the row number.
  virtual HbmIndexView index_view() const { return {}; }

  // Reserves memory for n more rows, so that creating as many succeeds. Returns the errors of
  // Create. Invalidates views.
  virtual Status Reserve(int64_t /*n*/) { return Status::Ok(); }
  // Creates rows for keys, with undefined content for a kernel to fill. Returns FailedPrecondition
  // for a static table, which has all its rows. Returns the errors of Put; nothing has changed
  // then. Keys need not be copied to the CPU: the work is enqueued on the device.
  //   keys  (n) in the GPU's memory
  //   rows  (n) in the GPU's memory, row numbers: the most recently freed first, then new ones
  // REQUIRES: the keys are distinct and have no rows
  virtual Status Create(const int64_t* keys, int64_t n, DeviceArray<uint32_t>* rows) = 0;

  // Caches the row indices of a lookup. They are dropped when a row is created or erased, or when
  // an update has been made: it may use those of several lookups. The store drops those of the
  // earliest lookup if kMostKeptLookups keep theirs. Checks that nobody has read stay.
  void Keep(CachedRowIndices rows);
  void ForgetKept();
  // Returns those of these ids; without an owner if there are none.
  CachedRowIndices cached_row_indices(const int64_t* ids, int64_t num_ids) const;
  // Returns those of these ids that nobody has checked, and counts them as checked.
  std::vector<CachedRowIndices> TakeUnchecked(const int64_t* ids, int64_t num_ids);

  // A store over lower tiers tracks which rows are the coldest. As in CacheStrategy, all rows of an
  // update are used at the same time.
  virtual void BeginUpdate() {}
  // Enqueues work on the device to record that an update uses and changes rows.
  //   rows  (n) in the GPU's memory: repeats, and kNoHbmRow, allowed
  void Use(const uint32_t* rows, int64_t n);
  // Records that the rows of these keys are used, but not changed. Skips keys without a row.
  virtual Status NoteUsesOf(const int64_t* keys, int64_t n);

  // Rows to demote to the tier below.
  struct Excess {
    std::vector<int64_t> keys;
    std::unique_ptr<char[]> records;  // (keys.size(), record_bytes)
    std::vector<int64_t> changed;     // the keys of changed rows
  };
  // Copies the rows to demote, sorted by key, if there are more than the limit allows.
  virtual Status ReadExcess(Excess* /*excess*/) { return Status::Ok(); }

  // Starts tracking changed rows, with none changed: rows that an update uses, and rows that are
  // put. After an error changes are not tracked.
  virtual Status TrackChanges();
  virtual void ForgetChanges();
  // As Walk, over the changed rows.
  // REQUIRES: changes are tracked
  virtual Status WalkChanged(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                             std::vector<char>* records, int64_t* next) const;

 protected:
  static constexpr int64_t kMostKeptLookups = 4;

  HbmStore(Device* device, int64_t record_bytes)
      : device_(device), record_bytes_(record_bytes), changes_(device) {}

  // Implements Use over lower tiers.
  virtual void NoteUses(const uint32_t* /*rows*/, int64_t /*n*/) REQUIRES(mutex_) {}

  virtual RecordsView KeysView() const REQUIRES_SHARED(mutex_) { return {}; }
  // Returns the row of each key, or kNoHbmRow.
  virtual Status FindRows(const int64_t* keys, int64_t n, uint32_t* rows) const
      REQUIRES_SHARED(mutex_) = 0;
  // Returns some used rows starting with number `cursor`, and the next cursor: -1 after the last.
  virtual int64_t NextRows(int64_t cursor, int64_t max_rows, std::vector<uint32_t>* rows) const
      REQUIRES_SHARED(mutex_) = 0;
  // Returns whether a row is used; its number must be below the last one ever used.
  virtual bool IsInUse(uint32_t row) const REQUIRES_SHARED(mutex_) = 0;
  // Returns the keys of used rows.
  //   keys  (rows.size())
  virtual Status KeysOf(const std::vector<uint32_t>& rows, int64_t* keys) const
      REQUIRES_SHARED(mutex_) = 0;
  // Returns the maximum number of rows with records of this size.
  virtual int64_t MostRows(int64_t record_bytes) const = 0;
  // Bytes beside the records.
  virtual int64_t IndexBytes() const REQUIRES_SHARED(mutex_) { return 0; }
  virtual int64_t IndexMemoryBytes() const REQUIRES_SHARED(mutex_) { return 0; }

  // Drops the row indices of the first lists up to `end`.
  void Forget(size_t end) REQUIRES(mutex_);
  int64_t KeptBytes() const REQUIRES_SHARED(mutex_) {
    int64_t bytes = 0;
    for (const CachedRowIndices& each : kept_) bytes += each.bytes();
    return bytes;
  }

  // Appends the keys and records of used rows.
  Status AppendRows(const std::vector<uint32_t>& rows, std::vector<int64_t>* keys,
                    std::vector<char>* records) const REQUIRES_SHARED(mutex_);
  // Writes the records of distinct rows, and marks them as used and changed.
  Status WriteRows(const std::vector<uint32_t>& rows,
                   const std::function<const char*(int64_t)>& place) REQUIRES(mutex_);

  // Returns the position of each distinct key's last record, in order.
  static std::vector<int64_t> LastPlaces(const int64_t* keys, int64_t n);

  Device* const device_;
  int64_t record_bytes_;
  std::unique_ptr<HbmTransfer> transfer_;
  mutable SharedMutex mutex_;
  HbmRecords records_ GUARDED_BY(mutex_);
  HbmChanges changes_ GUARDED_BY(mutex_);
  std::vector<CachedRowIndices> kept_ GUARDED_BY(mutex_);
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_STORE_H_
