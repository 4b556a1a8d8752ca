// FirstTier: the tier in which rows are used in place.
#ifndef KERAS_SPARSE_OPS_CORE_FIRST_TIER_FIRST_TIER_H_
#define KERAS_SPARSE_OPS_CORE_FIRST_TIER_FIRST_TIER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/record/record_layout.h"

namespace keras_sparse {

class Initializer;

// The size of a first tier over lower ones, and the strategy that decides which rows stay.
struct TierLimit {
  int64_t bytes = INT64_MAX;  // everything the tier holds; INT64_MAX: no limit
  std::string strategy = "LRU";
};

// A static table has a DenseArrayTier, a dynamic one a HashTableTier.
//
// Keys are partitioned by the top bits of their hash. Different threads may create keys of
// different parts at once; the caller ensures that each part has one thread.
//
// Thread safety: const methods may overlap; FindOrCreate as above; any other call needs exclusive
// access to the tier.
class FirstTier {
 public:
  virtual ~FirstTier() = default;

  // Returns the finest partition, in bits.
  virtual int max_partition_bits() const = 0;

  // Prefetches the index entries that Find will read for these keys.
  virtual void PrefetchIndex(const int64_t* keys, int64_t n) const = 0;

  // Finds the record of each key; null for a key without a record. Reads only the index, not the
  // records.
  //   keys, records  (n)
  virtual void Find(const int64_t* keys, int64_t n, float** records) const = 0;

  // As Find, but creates missing records, with undefined content, and sets their `created` to true.
  // REQUIRES: the table owns each key; keys are distinct; n <= kBlockRows
  virtual Status FindOrCreate(const int64_t* keys, int64_t n, float** records, bool* created) = 0;

  // Begins an update of the table: all rows that FindOrCreate returns until the next call are used
  // at the same time.
  virtual void BeginUpdate() {}

  // If the tier exceeds its limit, passes the coldest rows to `put` and drops them. A tier may
  // exceed its limit until then, because an update needs all its rows here. If `put` fails, all
  // rows stay.
  using PutRecords =
      std::function<Status(const std::vector<int64_t>& keys, std::unique_ptr<char[]> records)>;
  virtual Status DemoteExcess(Executor* /*executor*/, const PutRecords& /*put*/) {
    return Status::Ok();
  }

  // Drops the record of a key. Returns false if the key had none, or if the tier keeps all rows.
  virtual bool Erase(int64_t key) = 0;

  // Rewrites the records in a new layout; see RecordLayout::LayOut.
  virtual Status Relayout(const RecordLayout& layout, int64_t step, Executor* executor) = 0;

  // Resets the tier to its state before training: without rows, or with each row at its initial
  // values, marked as last updated at `step`.
  virtual Status Clear(const Initializer& initializer, int64_t step, Executor* executor) = 0;

  // Returns the number of rows, and the bytes of everything that holds them.
  virtual int64_t num_rows() const = 0;
  virtual int64_t bytes() const = 0;
  // Returns the bytes of erased rows among these, which new rows reuse.
  virtual int64_t free_bytes() const { return 0; }

  // Walks over the rows in chunks of `max_rows` and at most a few thousand more. A chunk starts at
  // `cursor` (first 0); returns the next cursor, or -1 at the end. Records stay valid until the
  // next change.
  virtual int64_t Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                       std::vector<const float*>* records) const = 0;

  // Starts tracking the rows that FindOrCreate returns, with none changed.
  virtual void TrackChanges() = 0;
  // Returns whether FindOrCreate has returned the row of this key since; WalkChanged walks over
  // these rows.
  // REQUIRES: TrackChanges was called, and no Relayout or Clear since
  virtual bool IsChanged(int64_t key) const = 0;
  virtual int64_t WalkChanged(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                              std::vector<const float*>* records) const = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FIRST_TIER_FIRST_TIER_H_
