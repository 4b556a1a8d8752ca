// EmbeddingTable: the rows of one table shard, with their optimizer slots.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_EMBEDDING_TABLE_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_EMBEDDING_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/admission/admission_filter.h"
#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/eviction/eviction_policy.h"
#include "ops/core/optimizer/update_rule.h"
#include "ops/core/stores/counted_store.h"
#include "ops/core/stores/row_store.h"
#include "ops/core/table/eviction_candidates.h"
#include "ops/core/table/output_bytes.h"
#include "ops/core/table/table_mutex.h"
#include "ops/core/table/table_options.h"
#include "ops/core/table/table_state.h"
#include "ops/core/table/table_stats.h"

namespace keras_sparse {

// Some rows of a table, caught up, so that they need no history to be read.
struct ExportedRows {
  int64_t record_floats = 0;   // width of a record
  std::vector<int64_t> keys;   // (n)
  std::vector<float> records;  // (n, record_floats): row, then slots
  std::vector<uint32_t> ages;  // (n), see EvictionPolicy; none if the table does not keep them
  int64_t next_cursor = -1;
};

// What a rule has made of the records.
struct RuleLayout {
  // How often SetRule has been called. An update names the generation that it was made for
  // (ApplyRequest), so that none takes for its own the slots that a later SetRule has laid out.
  int64_t generation = 0;
  std::vector<std::string> slot_names;  // in the order of the record
  int64_t record_floats = 0;
};

// A lookup changes nothing; rows are created by Apply and Import. A key without a row has its
// initial one all the same, unless the table has an admission filter that says otherwise.
//
// Thread safety: every method may be called from any thread. LookupRows (lookup.h) holds the
// table's lock shared, all that changes rows holds it alone; locks are taken on the calling thread
// only, never inside a loop of the executor.
class EmbeddingTable {
 public:
  static Status Open(const TableOptions& options, Executor* executor,
                     std::unique_ptr<EmbeddingTable>* table);

  const std::string& name() const { return options_.name; }
  int64_t dim() const { return options_.output_dim; }
  bool is_dynamic() const { return options_.input_dim < 0; }
  int64_t input_dim() const { return options_.input_dim; }
  bool out_of_range_is_zero() const { return options_.out_of_range_is_zero; }
  bool has_lower_tiers() const { return !options_.storage.lower_tiers.empty(); }
  OutputBytes& output_bytes() { return output_bytes_; }
  // Another one for each table of the process, ever.
  uint64_t number() const { return number_; }

  // Puts a store below the tiers there are.
  // FailedPrecondition unless its records have the size of the table's; Unimplemented for a static
  // table.
  Status AddLowerTier(std::unique_ptr<RowStore> store);

  // Lays the records out for a rule of ops/core/optimizer/rules. Rows stay, all slots get their
  // initial values, and the rule's steps begin anew. Lower tiers are written anew beside the old
  // ones, which takes their room twice. FailedPrecondition after AddLowerTier.
  //   rule    its dim is the table's, whatever it says
  //   layout  may be null
  Status SetRule(const RuleOptions& rule, Executor* executor, RuleLayout* layout = nullptr);
  int64_t rule_generation() const;
  // What the rule was given in the steps that rows may have missed.
  RuleHistory history() const;

  // Counts what may have changed a row.
  // REQUIRES: TableLocks
  int64_t version() const { return state_.version; }
  // Counts updates, up to 2^32, after which it begins anew.
  // REQUIRES: TableLocks
  uint32_t num_updates() const { return state_.rule_state.num_steps(); }

  // Changes what keys without a row read as, and what Clear goes back to. Rows held stay.
  Status SetInitializer(const InitializerOptions& options);

  // Gives a dynamic table an admission filter, in place of the one there may be, whose waiting keys
  // are forgotten. Rows held stay; from now on Apply makes a row only for a key that is admitted.
  // Import asks no filter.
  // Unimplemented for a static table, all of whose ids have rows.
  Status SetFilter(const FilterOptions& options);

  // Limits the rows of a dynamic table, in all tiers, that updates make: one that would make more
  // is refused before it makes or changes any. Before that rows go by the policy, if there is one,
  // but none of those that the update is for. Rows that there are, or that are imported, stay. With
  // a filter of kind "cbf" an update may exceed the limit by the few keys that others of its step
  // get admitted.
  //   policy  may be null
  // Unimplemented for a static table, FailedPrecondition if the policy needs ages that the table
  // does not keep.
  Status SetRowLimit(int64_t max_rows, std::unique_ptr<EvictionPolicy> policy);
  // Whether an update with these ids would stay within the limit: ResourceExhausted if it would
  // not. Changes nothing.
  Status CheckRoom(const int64_t* ids, int64_t n, Executor* executor);

  // What the filter remembers, in pieces, as Export gives rows. Empty for a table without one.
  Status ExportFilter(int64_t cursor, int64_t max_entries, FilterEntries* entries) const;

  // Writes what ExportFilter has given, over a filter of the same kind and size. An entry of a key
  // that has a row is kept and does nothing.
  // FailedPrecondition if the table has no filter.
  Status ImportFilter(const int64_t* keys, const uint32_t* counts, int64_t n);

  // A cursor is 0 at first, then the next_cursor of the piece before; -1 says that all is out,
  // and gives an empty piece.
  // FailedPrecondition if the table has changed since the walk began.
  Status Export(int64_t cursor, int64_t max_rows, ExportedRows* rows) const;

  // Writes rows, creating those that are not there. Of a repeated key the last row stays.
  //   keys     (n)
  //   records  (n, width): row and slots if width is record_floats, only the row if it is dim;
  //            slots then stay, or are the initial ones in a new row; with the steps of
  //            RecordLayout if it is all of a record's words
  //   ages     (n), or null for ages of 0; nothing to a table that does not keep them
  // InvalidArgument for another width, a key outside a static table, or steps that the rule does
  // not remember; nothing is changed then.
  Status Import(const int64_t* keys, int64_t n, const float* records, int64_t width,
                Executor* executor, const uint32_t* ages = nullptr);

  // Drops the rows, in all tiers, that the policy lets go, and counts them; `rows`, if not null,
  // gets them as Export would have given them, in one piece. Their keys are then as
  // if they had never had a row: a filter is asked again. A lower tier that is full does not stop
  // it, and has room afterwards.
  // Unimplemented for a static table, FailedPrecondition if the policy needs ages that the table
  // does not keep. If a lower tier cannot be read, all rows stay; if it cannot erase, those of the
  // first tier do, and of the others some may have gone uncounted, each as a whole.
  Status Evict(const EvictionPolicy& policy, Executor* executor, int64_t* num_evicted,
               ExportedRows* rows = nullptr);

  // Back to the state before training: no rows and no waiting keys, or every row its initial one.
  Status Clear(Executor* executor);
  // The same, and then goes on after the steps of a saved table with the same rule, so that its
  // records can be imported with their steps. InvalidArgument if that cannot be its history.
  Status Restore(const RuleHistory& history, Executor* executor);

  // Drops the rows of these keys from all tiers; what waits in the filter stays. Keys may be
  // repeated, or have no row. After an error those of the first tier are still there, of the others
  // some may have gone.
  // Unimplemented for a static table.
  Status EraseRows(const int64_t* keys, int64_t n, Executor* executor);

  // Moves the rows of these keys from the first tier to the next one.
  // FailedPrecondition if there is no lower tier.
  Status Demote(const int64_t* keys, int64_t n);

  int64_t size() const;
  // Width of an exported record: row and slots.
  int64_t record_floats() const;
  // Waits until what is on its way to lower tiers is there.
  TableStats stats() const;
  // The first tier, then the lower ones.
  std::vector<TierStats> tier_stats() const;
  // Bytes of everything that the first tier holds, and how many of these keys have their row there.
  int64_t first_tier_bytes() const;
  int64_t CountInFirstTier(const int64_t* keys, int64_t n) const;

 private:
  friend class FetchedRecords;
  friend class RowReader;
  friend class RowWriter;
  friend class TableLocks;
  friend class TableSnapshot;
  friend class GradientApplier;
  friend class TableEvictor;

  explicit EmbeddingTable(const TableOptions& options) : options_(options) {}

  static uint64_t NextNumber();

  // All of these need the lock.
  // Which rows have to go for the table to stay within its limit when an update has made those
  // that these keys lack. ResourceExhausted if it cannot. Changes nothing.
  Status FindRoom(const int64_t* keys, int64_t n, Executor* executor,
                  EvictionCandidates* leaving) const;
  Status RowLimitError(int64_t num_new, int64_t num_leaving) const;
  // The rows that a policy lets go, but for those of some keys, which are sorted.
  Status FindLeaving(const EvictionPolicy& policy, const std::vector<int64_t>& kept,
                     Executor* executor, EvictionCandidates* leaving,
                     ExportedRows* rows = nullptr) const;
  Status EvictRows(const EvictionCandidates& leaving, Executor* executor);
  Status CheckEviction(const EvictionPolicy& policy) const;
  Status ClearRows(Executor* executor);
  Status ExportLowerTiers(int64_t cursor, int64_t max_rows, ExportedRows* rows) const;
  void AppendExported(int64_t key, const float* record, ExportedRows* rows) const;

  const TableOptions options_;
  OutputBytes output_bytes_;
  const uint64_t number_ = NextNumber();

  mutable TableMutex mutex_;
  TableState state_{options_};  // the lock's
};

// Locks the tables of an op, each once and in one order, so that ops over the same tables cannot
// wait for each other in a circle.
class TableLocks {
 public:
  enum class Mode { kShared, kExclusive };
  TableLocks(std::vector<EmbeddingTable*> tables, Mode mode);
  ~TableLocks();
  TableLocks(const TableLocks&) = delete;
  TableLocks& operator=(const TableLocks&) = delete;

  // Whether a table was named twice.
  bool has_repeats() const { return has_repeats_; }

 private:
  std::vector<EmbeddingTable*> tables_;
  Mode mode_;
  bool has_repeats_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_EMBEDDING_TABLE_H_
