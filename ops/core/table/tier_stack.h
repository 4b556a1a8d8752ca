// TierStack: the tiers of a table's rows, starting with the tier in which rows are used.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_TIER_STACK_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_TIER_STACK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/files/storage_folder.h"
#include "ops/core/first_tier/first_tier.h"
#include "ops/core/record/initializer.h"
#include "ops/core/record/record_layout.h"
#include "ops/core/stores/hbm/hbm_store.h"
#include "ops/core/stores/instrumented_store.h"
#include "ops/core/stores/row_store.h"
#include "ops/core/stores/store_stack.h"
#include "ops/core/table/change_log.h"
#include "ops/core/table/staged_records.h"
#include "ops/core/table/table_options.h"

namespace keras_sparse {

// The first tier that has a key holds its row. A table in a GPU's memory starts with a StagingTier,
// followed by the GPU's memory, which is the first tier to the user; the tiers below are its cold
// tiers. A copy that a failed erase left in a lower tier is not the row and must not be promoted.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the stack.
class TierStack {
 public:
  // `options` must outlive the stack.
  explicit TierStack(const TableOptions& options) : options_(options) {}

  // Opens the tiers of the options. Must be called once, before any other method. Returns
  // InvalidArgument or Unimplemented if a table cannot have such tiers.
  Status Open(const RecordLayout& layout, const Initializer& initializer, Executor* executor);

  // Adds a store below the existing tiers. Returns FailedPrecondition if the store's records have
  // another size, or if the options name lower tiers. Returns Unimplemented for a static table.
  Status AddLowerTier(std::unique_ptr<RowStore> store, int64_t record_bytes);

  // The tier in which rows are used; a table in a GPU's memory uses rows there, below this tier. A
  // static table has this tier alone.
  const FirstTier& first_tier() const { return *first_tier_; }
  FirstTier& first_tier() { return *first_tier_; }
  // Lower tiers from fastest to slowest. All tiers of the options except a GPU's memory form one
  // store; counted_stores() lists each of them. Stores are thread-safe; a caller with a const stack
  // must not change their rows.
  const RowStores& lower_tiers() const { return lower_tiers_; }
  const std::vector<InstrumentedStore*>& counted_stores() const { return counted_stores_; }
  // Returns the store of a table in a GPU's memory, which is the first lower tier; else null.
  HbmStore* hbm_store() const { return hbm_store_; }
  // Returns the tiers below a GPU's memory; without a GPU, all lower tiers.
  RowStores cold_stores() const {
    return {lower_tiers_.begin() + num_above_cold(), lower_tiers_.end()};
  }
  bool HasLowerTierReads() const;
  // Records read from lower tiers that are still current there. Thread-safe by itself: lookups add
  // to it.
  StagedRecords& staged() const { return *staged_; }
  const ChangeLog& change_log() const { return change_log_; }
  // Nanoseconds that ops waited for lower tiers.
  std::atomic<int64_t>* waited_ns() const { return &waited_ns_; }

  int64_t num_rows() const;
  // Returns the bytes of all tiers.
  int64_t bytes() const;
  // The current size of the first tier, in host or GPU memory, and its maximum, including within
  // updates.
  int64_t first_tier_bytes() const;
  int64_t peak_first_tier_bytes() const;

  bool IsInFirstTier(int64_t key) const;
  bool HasRowsBelow() const;
  // Returns for each key whether the first tier or one of the first `num_lower_tiers` lower tiers
  // has it.
  std::vector<bool> AreAbove(size_t num_lower_tiers, const std::vector<int64_t>& keys) const;
  // Returns the distinct keys without a row, sorted.
  std::vector<int64_t> KeysWithoutRow(const int64_t* keys, int64_t n, Executor* executor) const;
  // Waits until the lower tiers have received all queued writes.
  void WaitForWrites() const;

  // Returns ResourceExhausted if a dynamic table without lower tiers is larger than its size.
  // CheckStaticSize checks a static table with such records before its rows are created.
  Status CheckMemory() const;
  Status CheckStaticSize(const RecordLayout& layout) const;

  // Rewrites all records in a new layout; see RecordLayout::LayOut. Lower tiers are rewritten
  // beside the old ones, which needs twice their space, and their counters restart. Afterwards no
  // record is staged, and every row counts as changed. Returns FailedPrecondition after
  // AddLowerTier.
  //   from  the current layout of the records
  //   step  of the rule with layout `to`
  Status Relayout(const RecordLayout& from, const RecordLayout& to, int64_t step,
                  Executor* executor);

  // Begins an update of the table: the cache strategy counts all rows of an update as used at once.
  void BeginUpdate();
  // Demotes the rows beyond the first tier's size to the next tier, then the rows beyond a GPU's
  // memory to the tier below it.
  Status DemoteExcess(Executor* executor);
  // Copies rows of the first tier to the next tier, before they leave the first. If this fails, the
  // next tier has none of them.
  // REQUIRES: there is a lower tier
  Status PutBelow(const std::vector<int64_t>& keys, std::unique_ptr<char[]> records);

  // Drops the rows of these keys from all lower tiers, or from the cold tiers.
  Status EraseBelow(const int64_t* keys, int64_t n) { return EraseFrom(0, keys, n); }
  Status EraseCold(const int64_t* keys, int64_t n) { return EraseFrom(num_above_cold(), keys, n); }
  // Drops the rows of these keys. Only the first `num_above` keys may be in the first tier. After
  // an error the rows of the first tier are still there; some of the others may be gone.
  Status EraseEverywhere(const std::vector<int64_t>& keys, size_t num_above);
  // Removes all rows, or resets all rows of a static table to their initial values; see
  // FirstTier::Clear.
  //   layout  of the records
  Status Clear(const RecordLayout& layout, const Initializer& initializer, int64_t step,
               Executor* executor);

  // Starts tracking changes from here. If a GPU has no room to track them, every row counts as
  // changed.
  void TrackChanges();
  // Makes every row count as changed.
  void SetEverythingChanged();
  // Records the size of the first tier. To be called when an update has all its rows there, before
  // any leave it.
  void SeeFirstTierBytes();

 private:
  int64_t first_tier_size() const;
  // Opens the tiers of a table in a GPU's memory.
  Status OpenOnDevice(const RecordLayout& layout, const Initializer& initializer);
  Status CheckOptions() const;
  // Returns ResourceExhausted unless the table's size fits in `bytes`, the memory of the GPU.
  Status CheckDeviceSize(int64_t bytes) const;
  // Returns whether there are tiers beyond those of the options.
  bool HasAddedTiers() const {
    return static_cast<int64_t>(lower_tiers_.size()) >
           num_above_cold() + (options_.has_lower_tiers() ? 1 : 0);
  }
  // Opens the lower tiers of the options for records of this size.
  Status OpenStores(int64_t record_bytes, StoreStack* stack);
  // Adds the stores below the existing tiers.
  void AddStores(StoreStack stack);
  // Demotes the rows beyond a GPU's memory.
  Status DemoteFromGpu();
  // Puts all rows into a lower tier, or none if it fails.
  Status PutInto(size_t tier, const std::vector<int64_t>& keys, std::unique_ptr<char[]> records);
  // Drops the rows of these keys from lower tiers `first` and below.
  Status EraseFrom(int64_t first, const int64_t* keys, int64_t n);
  // Returns the number of lower tiers above the cold ones.
  int64_t num_above_cold() const { return hbm_store_ == nullptr ? 0 : 1; }

  const TableOptions& options_;
  std::unique_ptr<FirstTier> first_tier_;
  std::unique_ptr<StorageFolder> folder_;  // of the lower tiers' files; null without such tiers
  int64_t num_stores_opened_ = 0;
  RowStores lower_tiers_;
  std::vector<InstrumentedStore*> counted_stores_;
  HbmStore* hbm_store_ = nullptr;
  const std::shared_ptr<StagedRecords> staged_ = std::make_shared<StagedRecords>();
  ChangeLog change_log_;
  int64_t peak_first_tier_bytes_ = 0;
  mutable std::atomic<int64_t> waited_ns_{0};
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_TIER_STACK_H_
