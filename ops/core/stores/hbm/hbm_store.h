// The rows of a table in a GPU's memory, as a store that the CPU reads and writes.
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
#include "ops/core/record/record_layout.h"
#include "ops/core/record/records_view.h"
#include "ops/core/stores/hbm/hbm_changes.h"
#include "ops/core/stores/hbm/hbm_limit.h"
#include "ops/core/stores/hbm/hbm_transfer.h"
#include "ops/core/stores/row_store.h"

namespace keras_sparse {

// A static table has a StaticHbmStore, a dynamic one a DynamicHbmStore. Steps use the rows in
// place, by kernels that take the views; to all else it is a store as those of other tiers.
//
// A view is good for work that is given to the device before the next change of the store. Kernels
// that change records are work of their own: the caller sees to it that no call overlaps which
// would read them half changed.
class HbmStore : public RowStore {
 public:
  // The device must outlive the store. Unimplemented in a build without CUDA.
  //   num_rows  of a static table, whose records have no defined content then; below 0 for a
  //             dynamic one
  //   limit     of a dynamic one
  static Status Open(Device* device, int64_t num_rows, int64_t record_bytes, const HbmLimit& limit,
                     std::unique_ptr<HbmStore>* store);
  // What Open calls; hbm_store.cu sets it. What else a build without CUDA calls is virtual.
  using Opener = Status (*)(Device* device, int64_t num_rows, int64_t record_bytes,
                            const HbmLimit& limit, std::unique_ptr<HbmStore>* store);
  static bool SetOpener(Opener opener);

  const char* tier() const override { return "hbm"; }
  int64_t record_bytes() const override { return record_bytes_; }
  // On the GPU: of records, index and what else there is.
  int64_t bytes() const override;
  int64_t memory_bytes() const override;
  // Of a GPU that fails, none.
  void Contains(const int64_t* keys, int64_t n, bool* found) const override;
  Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const override;
  Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
              std::vector<char>* records, int64_t* next) const override;

  // Back to no rows, or each its initial one, marked as last updated at `step`.
  //   layout  of the records there are
  virtual Status Initialize(const InitialRows& initial_rows, const RecordLayout& layout,
                            int64_t step) = 0;
  // Lays all records out anew; see RecordLayout::LayOut. Takes the room of both meanwhile; after an
  // error nothing has changed.
  virtual Status Relayout(const RecordLayout& from, const RecordLayout& to, int64_t step);

  // Makes the moves of the rule that records have missed: UpdateRule::CatchUp of each. No record
  // leaves the GPU.
  //   history  the rule's
  virtual Status CatchUp(const UpdateRule& rule, cuda_impl::HistoryOnDevice* history);

  virtual bool is_static() const = 0;
  RecordsView records_view() const;
  // Of a dynamic one. In a static one the row of a key has its number.
  virtual HbmIndexView index_view() const { return {}; }

  // Takes the room that so many more rows need: Create of as many finds it. Errors are those of
  // Create. Views change.
  virtual Status Reserve(int64_t /*n*/) { return Status::Ok(); }
  // Gives keys rows, of no defined content, for a kernel to fill: FailedPrecondition of a static
  // one, which has all its rows. Errors are those of Put; nothing has changed then. No key need
  // cross to the CPU: the device is given the work.
  //   keys  (n) in the GPU's memory
  //   rows  (n) there, their numbers: of those that were freed the last one first, then new ones
  // REQUIRES: the keys are distinct and none is there
  virtual Status Create(const int64_t* keys, int64_t n, DeviceArray<uint32_t>* rows) = 0;

  // What a lookup has found, until any row comes or goes, the next lookup keeps its own, or the
  // update has taken it.
  void Keep(CachedRowIndices rows);
  void ForgetKept() { Keep({}); }
  CachedRowIndices cached_row_indices() const;

  // Over lower tiers a store knows which of its rows are the coldest. As CacheStrategy has it, what
  // an update uses is used at one time.
  virtual void BeginUpdate() {}
  // Gives the device the work to note that an update uses rows, and changes them.
  //   rows  (n) in the GPU's memory: repeats, and kNoHbmRow, allowed
  void Use(const uint32_t* rows, int64_t n);
  // Notes that the rows of these keys are used, and changes none: those without one are left out.
  virtual Status NoteUsesOf(const int64_t* keys, int64_t n);

  // Rows that leave for the tier below.
  struct Excess {
    std::vector<int64_t> keys;
    std::unique_ptr<char[]> records;  // (keys.size(), record_bytes)
    std::vector<int64_t> changed;     // of the keys, those of rows that have changed
  };
  // Copies the rows that are to leave, where there are more than the limit allows, by their keys.
  virtual Status ReadExcess(Excess* /*excess*/) { return Status::Ok(); }

  // Begins to keep which rows change, from none on: those that an update uses, and those that are
  // put. After an error nothing is kept.
  virtual Status TrackChanges();
  virtual void ForgetChanges();
  // As Walk, over the rows that have changed. REQUIRES: changes are kept
  virtual Status WalkChanged(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                             std::vector<char>* records, int64_t* next) const;

 protected:
  HbmStore(Device* device, int64_t record_bytes)
      : device_(device), record_bytes_(record_bytes), changes_(device) {}

  // Of Use, over lower tiers.
  virtual void NoteUses(const uint32_t* /*rows*/, int64_t /*n*/) REQUIRES(mutex_) {}

  // The row of each key, or kNoHbmRow.
  virtual Status FindRows(const int64_t* keys, int64_t n, uint32_t* rows) const
      REQUIRES_SHARED(mutex_) = 0;
  // Some rows that are in use, from this number on, and where to go on: -1 after the last.
  virtual int64_t NextRows(int64_t cursor, int64_t max_rows, std::vector<uint32_t>* rows) const
      REQUIRES_SHARED(mutex_) = 0;
  // Of rows with these numbers, all below the last one that was taken.
  virtual bool IsInUse(uint32_t row) const REQUIRES_SHARED(mutex_) = 0;
  // The keys of rows in use.
  //   keys  (rows.size())
  virtual Status KeysOf(const std::vector<uint32_t>& rows, int64_t* keys) const
      REQUIRES_SHARED(mutex_) = 0;
  // How many rows there may be with records of this size.
  virtual int64_t MostRows(int64_t record_bytes) const = 0;
  // What there is beside the records.
  virtual int64_t IndexBytes() const REQUIRES_SHARED(mutex_) { return 0; }
  virtual int64_t IndexMemoryBytes() const REQUIRES_SHARED(mutex_) { return 0; }

  // Appends the keys and records of rows in use.
  Status AppendRows(const std::vector<uint32_t>& rows, std::vector<int64_t>* keys,
                    std::vector<char>* records) const REQUIRES_SHARED(mutex_);
  // Writes the records of distinct rows, which uses and changes them.
  Status WriteRows(const std::vector<uint32_t>& rows,
                   const std::function<const char*(int64_t)>& place) REQUIRES(mutex_);

  // Where the last record of each distinct key stands, in this order.
  static std::vector<int64_t> LastPlaces(const int64_t* keys, int64_t n);

  Device* const device_;
  int64_t record_bytes_;
  std::unique_ptr<HbmTransfer> transfer_;
  mutable SharedMutex mutex_;
  HbmRecords records_ GUARDED_BY(mutex_);
  HbmChanges changes_ GUARDED_BY(mutex_);
  CachedRowIndices kept_ GUARDED_BY(mutex_);
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_HBM_HBM_STORE_H_
