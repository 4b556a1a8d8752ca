// RowStore: keeps the records of a table on one lower tier.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_ROW_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_ROW_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/base/status.h"

namespace keras_sparse {

// A second name for a file of a store; the file no longer changes.
struct LinkedFile {
  std::string path;            // the second name
  int64_t num_entries = 0;     // number of entries in the file, each a key and its record
  std::vector<uint8_t> alive;  // one bit per entry, lowest first: whether it is a row of the store
};

// Options of a store.
struct StoreOptions {
  std::string kind;    // registered name, such as "ssdhash"
  std::string folder;  // of this store alone; the store creates and removes it
  int64_t record_bytes = 0;
  int64_t capacity = INT64_MAX;  // bytes on the tier
  bool keeps_order = false;      // needed for Oldest, if there is a tier below
};

// Records are opaque here: record_bytes() bytes per key. Calls are batched (all misses of an op at
// once), so that a store can sort them by position and keep many reads in flight.
//
// Thread safety: every method may be called from any thread. A call sees each key as it was before
// or after any overlapping call.
class RowStore {
 public:
  virtual ~RowStore() = default;

  // Stores register under their name, each in its own file.
  using Factory = Status (*)(const StoreOptions& options, std::unique_ptr<RowStore>* store);
  static bool Register(const std::string& kind, Factory factory);
  // Returns InvalidArgument if no store has this name.
  static Status Open(const StoreOptions& options, std::unique_ptr<RowStore>* store);

  // The tier's name in statistics and messages, such as "dram".
  virtual const char* tier() const = 0;
  virtual int64_t record_bytes() const = 0;
  virtual int64_t num_rows() const = 0;
  // Bytes on the tier, at least those of its records, and bytes of memory that the store uses
  // besides.
  virtual int64_t bytes() const = 0;
  virtual int64_t memory_bytes() const = 0;
  // Bytes that compaction has moved so far, for stores that compact.
  virtual int64_t compacted_bytes() const { return 0; }

  // Finds which keys exist.
  //   keys, found  (n), repeats allowed
  virtual void Contains(const int64_t* keys, int64_t n, bool* found) const = 0;

  // Copies the record of each key. For a missing key, copies nothing and sets its `found` to false.
  //   keys   (n), repeats allowed
  //   to     (n), where the records go
  //   found  (n)
  virtual Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const = 0;
  // As GetTo, into one array.
  //   records  (n, record_bytes)
  Status Get(const int64_t* keys, int64_t n, char* records, bool* found) const;

  // Stores or replaces records. After an error each key has its old record or its new one, whole.
  // Returns ResourceExhausted (TierIsFull) if the records exceed the size of the tier, or if the
  // disk is full.
  //   keys     (n); if a key repeats, its last record stays
  //   records  (n, record_bytes)
  virtual Status Put(const int64_t* keys, int64_t n, const char* records) = 0;
  // As Put, for records that the store may keep in place, which saves a copy.
  virtual Status PutOwned(const int64_t* keys, int64_t n, std::unique_ptr<char[]> records) {
    return Put(keys, n, records.get());
  }

  // Skips keys that do not exist.
  virtual Status Erase(const int64_t* keys, int64_t n) = 0;
  // As Erase, for rows that were moved to a tier below.
  virtual Status EraseMoved(const int64_t* keys, int64_t n) { return Erase(keys, n); }

  virtual Status Clear() = 0;

  // Waits until all changes are made, and returns the error of one that failed. Changes nothing: a
  // walk may continue afterwards.
  virtual Status Flush() { return Status::Ok(); }

  // Removes all bytes of dead records from the store's files: of records that were erased, moved to
  // another tier, or replaced. Does not clear free memory, nor files linked by LinkFiles. Changes
  // no row: a walk may continue afterwards. After an error all rows are still there, perhaps with
  // such bytes; the next call retries.
  virtual Status Compact() { return Status::Ok(); }

  // Appends the keys and records of the next rows, about `max_rows` of them. A walk starts at
  // cursor 0 and continues at *next until that is -1; a change in between ends it.
  virtual Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                      std::vector<char>* records, int64_t* next) const = 0;

  // For a checkpoint: a store whose files only grow links them instead of copying its rows. Each
  // file is named `path_prefix` followed by a name of its own. After an error some of the files may
  // exist.
  //
  // Until the next change, WalkUnlinked walks over the rows that are in none of the files.
  // REQUIRES: LinkFiles has succeeded
  virtual Status LinkFiles(const std::string& /*path_prefix*/, std::vector<LinkedFile>* /*files*/) {
    return Status::Ok();
  }
  virtual Status WalkUnlinked(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                              std::vector<char>* records, int64_t* next) const {
    return Walk(cursor, max_rows, keys, records, next);
  }
  // Returns whether LinkFiles links all rows of the store.
  virtual bool links_all() const { return false; }

  // For a tier that moves its oldest rows to the tier below it when it is full.
  //
  // Returns how many rows with new keys Put can take before the capacity is reached.
  virtual int64_t Room() const { return INT64_MAX; }
  // Appends the keys and records of the `n` rows that were put first, oldest first; all rows if
  // there are fewer. Skips rows that cannot be read. Returns Unimplemented from a store that does
  // not keep the order.
  virtual Status Oldest(int64_t n, std::vector<int64_t>* keys, std::vector<char>* records) const;

  // Calls GetTo for the keys at these positions of the arrays.
  Status GetPlaces(const std::vector<int64_t>& places, const int64_t* keys, char* const* to,
                   bool* found) const;

 protected:
  // For stores that keep their keys in memory: appends the records of walked keys, read by Get.
  // Skips keys that were erased since they were walked.
  Status AppendRecords(const std::vector<int64_t>& walked, std::vector<int64_t>* keys,
                       std::vector<char>* records) const;

  // Returns the ResourceExhausted error of rows that exceed the store's capacity.
  Status TierIsFull(const std::string& folder, int64_t capacity, int64_t needed) const;
};

// The lower tiers of a table, from fastest to slowest. Shared, because a reader without the table's
// lock may outlast a replacement of the table's tiers.
using RowStores = std::vector<std::shared_ptr<RowStore>>;

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_ROW_STORE_H_
