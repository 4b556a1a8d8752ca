// A RowStore keeps the records of a table on one lower tier.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_ROW_STORE_H_
#define KERAS_SPARSE_OPS_CORE_STORES_ROW_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/base/status.h"

namespace keras_sparse {

// A file of a store that does not change any more, under a second name.
struct LinkedFile {
  std::string path;            // the second name
  int64_t num_entries = 0;     // in it, of a key and its record each
  std::vector<uint8_t> alive;  // a bit an entry, the lowest first: whether it is a row of the store
};

// What a store is made from.
struct StoreOptions {
  std::string kind;    // the name it is registered under, such as "ssdhash"
  std::string folder;  // of this store alone; the store makes and removes it
  int64_t record_bytes = 0;
  int64_t capacity = INT64_MAX;  // bytes on the tier
  bool keeps_order = false;      // Oldest will be asked for: there is a tier below
};

// Records are opaque here: record_bytes() bytes a key. Calls come in batches, a whole op's misses
// at once, so that a store can sort them by position and keep many reads in flight.
//
// Thread safety: every method may be called from any thread. A call sees each key as it was before
// or after any call that overlaps it.
class RowStore {
 public:
  virtual ~RowStore() = default;

  // Stores register themselves under their name, each in its own file.
  using Factory = Status (*)(const StoreOptions& options, std::unique_ptr<RowStore>* store);
  static bool Register(const std::string& kind, Factory factory);
  // InvalidArgument if there is no such store.
  static Status Open(const StoreOptions& options, std::unique_ptr<RowStore>* store);

  // The tier's name in statistics and messages, such as "dram".
  virtual const char* tier() const = 0;
  virtual int64_t record_bytes() const = 0;
  virtual int64_t num_rows() const = 0;
  // On the tier, at least those of its records, and in memory for what lies there.
  virtual int64_t bytes() const = 0;
  virtual int64_t memory_bytes() const = 0;
  // That compaction has moved so far, for stores that compact.
  virtual int64_t compacted_bytes() const { return 0; }

  // Whether each key is there.
  //   keys, found  (n), repeats allowed
  virtual void Contains(const int64_t* keys, int64_t n, bool* found) const = 0;

  // Copies the record of each key. A key that is not there is not an error: nothing is copied for
  // it and its `found` is false.
  //   keys   (n), repeats allowed
  //   to     (n), where the records go
  //   found  (n)
  virtual Status GetTo(const int64_t* keys, int64_t n, char* const* to, bool* found) const = 0;
  // The same into one array.
  //   records  (n, record_bytes)
  Status Get(const int64_t* keys, int64_t n, char* records, bool* found) const;

  // Stores or replaces. After a failure each key has its old record or its new one, whole.
  // ResourceExhausted (TierIsFull) where they exceed the size of the tier, or the disk is full.
  //   keys     (n); of a repeated key the last record stays
  //   records  (n, record_bytes)
  virtual Status Put(const int64_t* keys, int64_t n, const char* records) = 0;
  // The same for records that the store may keep where they are, which saves a copy.
  virtual Status PutOwned(const int64_t* keys, int64_t n, std::unique_ptr<char[]> records) {
    return Put(keys, n, records.get());
  }

  // A key that is not there is left out.
  virtual Status Erase(const int64_t* keys, int64_t n) = 0;
  // The same for rows that a tier below has now.
  virtual Status EraseMoved(const int64_t* keys, int64_t n) { return Erase(keys, n); }

  virtual Status Clear() = 0;

  // Returns when all changes are made, with the error of one that could not be. Changes nothing: a
  // walk goes on afterwards.
  virtual Status Flush() { return Status::Ok(); }

  // Leaves no byte in the store's files of a record that it had before and has no more: one that
  // was erased, has moved to another tier, or was replaced. Memory that is free is not cleared, and
  // what LinkFiles has linked is not the store's. Changes no row: a walk goes on afterwards. After
  // an error all rows are there, and so may be such bytes; the next call tries again.
  virtual Status Compact() { return Status::Ok(); }

  // Appends the keys and records of the next rows, about `max_rows` of them. A walk begins at
  // cursor 0 and goes on at *next, until that is -1; a change in between ends it.
  virtual Status Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                      std::vector<char>* records, int64_t* next) const = 0;

  // For a checkpoint: a store whose rows lie in files that only grow links them instead of having
  // its rows copied. Every file is named `path_prefix` and a name of its own. After an error some
  // of the files may be there.
  //
  // Until the next change WalkUnlinked is the walk over the rows that are in none of the files.
  // REQUIRES: LinkFiles has succeeded
  virtual Status LinkFiles(const std::string& /*path_prefix*/, std::vector<LinkedFile>* /*files*/) {
    return Status::Ok();
  }
  virtual Status WalkUnlinked(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                              std::vector<char>* records, int64_t* next) const {
    return Walk(cursor, max_rows, keys, records, next);
  }
  // Whether LinkFiles gives all rows there can be.
  virtual bool links_all() const { return false; }

  // For a tier that gives its oldest rows to the tier below it, when it is full.
  //
  // How many rows with new keys Put takes before the capacity is reached.
  virtual int64_t Room() const { return INT64_MAX; }
  // Appends the keys and records of the `n` rows that were put first, the oldest first; all rows if
  // there are fewer. Rows that cannot be read are left out. Unimplemented from a store that does
  // not know the order.
  virtual Status Oldest(int64_t n, std::vector<int64_t>* keys, std::vector<char>* records) const;

  // GetTo of the keys at these places of the arrays.
  Status GetPlaces(const std::vector<int64_t>& places, const int64_t* keys, char* const* to,
                   bool* found) const;

 protected:
  // For stores that keep their keys in memory: the records of walked keys, by Get. A key that was
  // erased since it was walked is left out.
  Status AppendRecords(const std::vector<int64_t>& walked, std::vector<int64_t>* keys,
                       std::vector<char>* records) const;

  // ResourceExhausted, for rows that need more than the store's capacity.
  Status TierIsFull(const std::string& folder, int64_t capacity, int64_t needed) const;
};

// The lower tiers of a table, from the fastest to the slowest. Who reads them without the table's
// lock keeps them by this: the table may be given others meanwhile.
using RowStores = std::vector<std::shared_ptr<RowStore>>;

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_ROW_STORE_H_
