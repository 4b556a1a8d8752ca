// TierStack: where the rows of a table lie, from the tier that they are used in down.
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

// A key's row is in the first tier that has the key. A table in a GPU's memory has a StagingTier
// first, and then that memory, which is its first tier to the user; tiers below that are its cold
// ones. What is below a row under the same key, after an erase that failed, is not the row, and
// must not come up.
//
// Thread safety: const methods may overlap; any other call needs the stack alone.
class TierStack {
 public:
  // `options` must outlive the stack.
  explicit TierStack(const TableOptions& options) : options_(options) {}

  // Opens the tiers of the options. To be called once, before all else.
  // InvalidArgument or Unimplemented if a table cannot have such tiers.
  Status Open(const RecordLayout& layout, const Initializer& initializer, Executor* executor);

  // Puts a store below the tiers there are.
  // FailedPrecondition unless its records have this size, and if the options name lower tiers;
  // Unimplemented for a static table.
  Status AddLowerTier(std::unique_ptr<RowStore> store, int64_t record_bytes);

  // Rows are used in the first tier, or in the memory of a GPU below it. A static table has this
  // one alone.
  const FirstTier& first_tier() const { return *first_tier_; }
  FirstTier& first_tier() { return *first_tier_; }
  // From the fastest to the slowest. Those of the options that are not a GPU's memory are one
  // store; counted_stores() has each of them. Stores are thread-safe; who has the stack as const
  // changes no row of theirs.
  const RowStores& lower_tiers() const { return lower_tiers_; }
  const std::vector<InstrumentedStore*>& counted_stores() const { return counted_stores_; }
  // The rows of a table in a GPU's memory, which are the first of the lower tiers; else null.
  HbmStore* hbm_store() const { return hbm_store_; }
  // What is below that; without one, all lower tiers.
  RowStores cold_stores() const {
    return {lower_tiers_.begin() + num_above_cold(), lower_tiers_.end()};
  }
  bool HasLowerTierReads() const;
  // What has been read of the lower tiers and is still as it is there. Thread-safe by itself:
  // lookups add to it.
  StagedRecords& staged() const { return *staged_; }
  const ChangeLog& change_log() const { return change_log_; }
  // Nanoseconds that ops have waited for lower tiers.
  std::atomic<int64_t>* waited_ns() const { return &waited_ns_; }

  int64_t num_rows() const;
  // Of everything that holds the rows.
  int64_t bytes() const;
  // Of the first tier, in a GPU's memory or not, and the most that it has held, also within an
  // update.
  int64_t first_tier_bytes() const;
  int64_t peak_first_tier_bytes() const;

  bool IsInFirstTier(int64_t key) const;
  bool HasRowsBelow() const;
  // Whether the first tier, or one of this many lower ones, has each of the keys.
  std::vector<bool> AreAbove(size_t num_lower_tiers, const std::vector<int64_t>& keys) const;
  // The distinct ones of these keys that have no row, sorted.
  std::vector<int64_t> KeysWithoutRow(const int64_t* keys, int64_t n, Executor* executor) const;
  // Until lower tiers have what is on its way to them.
  void WaitForWrites() const;

  // ResourceExhausted if a table in memory alone is larger than its size; a static one, with such
  // records, is asked before it is made.
  Status CheckMemory() const;
  Status CheckStaticSize(const RecordLayout& layout) const;

  // Lays all records out anew; see RecordLayout::LayOut. Lower tiers are written anew beside the
  // old ones, which takes their room twice, and count anew. Nothing is staged afterwards, and every
  // row counts as changed. FailedPrecondition after AddLowerTier.
  //   from  the layout that they have
  //   step  of the rule that they are laid out for
  Status Relayout(const RecordLayout& from, const RecordLayout& to, int64_t step,
                  Executor* executor);

  // Says that an update of the table begins: what it uses is used at one time.
  void BeginUpdate();
  // Moves what the first tier holds beyond its size to the next one, and what is then too much for
  // a GPU's memory to that below it.
  Status DemoteExcess(Executor* executor);
  // Copies rows of the first tier to the next one, for them to leave it. If that fails, the next
  // one has none of them.
  // REQUIRES: there is one
  Status PutBelow(const std::vector<int64_t>& keys, std::unique_ptr<char[]> records);

  // Drops the rows of these keys from all lower tiers, or from the cold ones.
  Status EraseBelow(const int64_t* keys, int64_t n) { return EraseFrom(0, keys, n); }
  Status EraseCold(const int64_t* keys, int64_t n) { return EraseFrom(num_above_cold(), keys, n); }
  // Drops the rows of these keys, of which the first `num_above` may be in the first tier. After an
  // error those of the first tier are still there, of the others some may have gone.
  Status EraseEverywhere(const std::vector<int64_t>& keys, size_t num_above);
  // Back to no rows, or every row its initial one; see FirstTier::Clear.
  //   layout  that the records have
  Status Clear(const RecordLayout& layout, const Initializer& initializer, int64_t step,
               Executor* executor);

  // From now on changes count from here. Where a GPU has no room to keep them, every row counts as
  // changed.
  void TrackChanges();
  // From now on every row counts as changed.
  void SetEverythingChanged();
  // To be called when an update has all its rows in the first tier, before any leave it.
  void SeeFirstTierBytes();

 private:
  int64_t first_tier_size() const;
  // Those of a table in a GPU's memory.
  Status OpenOnDevice(const RecordLayout& layout, const Initializer& initializer);
  Status CheckOptions() const;
  // ResourceExhausted unless its size is within this one of the GPU.
  Status CheckDeviceSize(int64_t bytes) const;
  // Whether there are tiers that the options do not name.
  bool HasAddedTiers() const {
    return static_cast<int64_t>(lower_tiers_.size()) >
           num_above_cold() + (options_.has_lower_tiers() ? 1 : 0);
  }
  // Opens the lower tiers of the options for records of this size.
  Status OpenStores(int64_t record_bytes, StoreStack* stack);
  // Puts them below the tiers there are.
  void AddStores(StoreStack stack);
  // Moves what is too much for a GPU's memory.
  Status DemoteFromGpu();
  // Puts rows into a lower tier, or none of them.
  Status PutInto(size_t tier, const std::vector<int64_t>& keys, std::unique_ptr<char[]> records);
  // From the lower tiers of this place on.
  Status EraseFrom(int64_t first, const int64_t* keys, int64_t n);
  // How many of the lower tiers come before the cold ones.
  int64_t num_above_cold() const { return hbm_store_ == nullptr ? 0 : 1; }

  const TableOptions& options_;
  std::unique_ptr<FirstTier> first_tier_;
  std::unique_ptr<StorageFolder> folder_;  // of the lower tiers' files; null if there are no such
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
