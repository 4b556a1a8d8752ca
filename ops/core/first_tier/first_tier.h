// The tier in which rows are used in place.
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

// The size of a first tier over lower ones, and which rows stay in it.
struct TierLimit {
  int64_t bytes = INT64_MAX;  // of everything the tier holds; INT64_MAX for no limit
  std::string strategy = "LRU";
};

// A static table has an DenseArrayTier, a dynamic one a HashTableTier.
//
// Keys fall into parts by the top bits of their hash. Keys of different parts may be created by
// different threads at once; the caller sees to it that a part has one thread.
//
// Thread safety: const methods may overlap; FindOrCreate as said above; any other call needs the
// tier alone.
class FirstTier {
 public:
  virtual ~FirstTier() = default;

  // The finest cut into parts, in bits.
  virtual int max_partition_bits() const = 0;

  // Starts bringing what Find will read for these keys into the cache.
  virtual void PrefetchIndex(const int64_t* keys, int64_t n) const = 0;

  // The record of each key, null where there is none. Reads the index only, not the records.
  //   keys, records  (n)
  virtual void Find(const int64_t* keys, int64_t n, float** records) const = 0;

  // The same, but where a key had no record, it gets one without content and `created` is true.
  // REQUIRES: the table owns each key; no key twice; n <= kBlockRows.
  virtual Status FindOrCreate(const int64_t* keys, int64_t n, float** records, bool* created) = 0;

  // Says that an update of the table begins: what FindOrCreate gives until the next call is used at
  // one time.
  virtual void BeginUpdate() {}

  // Gives the coldest rows to `put`, if the tier holds more than its limit allows, and drops them.
  // A tier may hold more until then: an update must have all its rows here. If `put` fails, all
  // rows stay.
  using PutRecords =
      std::function<Status(const std::vector<int64_t>& keys, std::unique_ptr<char[]> records)>;
  virtual Status DemoteExcess(Executor* /*executor*/, const PutRecords& /*put*/) {
    return Status::Ok();
  }

  // Drops the record of a key. Returns false if there was none, or if the tier keeps all rows.
  virtual bool Erase(int64_t key) = 0;

  // Lays the records out anew for `layout`; see RecordLayout::LayOut.
  virtual Status Relayout(const RecordLayout& layout, int64_t step, Executor* executor) = 0;

  // Back to a table without training: no rows, or each row its initial one, marked as last updated
  // at `step`.
  virtual Status Clear(const Initializer& initializer, int64_t step, Executor* executor) = 0;

  // Rows held, and the bytes of everything that holds them.
  virtual int64_t num_rows() const = 0;
  virtual int64_t bytes() const = 0;
  // Of these, the bytes of rows that were erased, which new ones take over.
  virtual int64_t free_bytes() const { return 0; }

  // The rows in pieces of a few thousand at most over `max_rows`. A piece begins at `cursor`
  // (0 first); returns the next cursor, or -1 at the end. Records stay valid until the next change.
  virtual int64_t Walk(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                       std::vector<const float*>* records) const = 0;

  // Begins to keep which rows FindOrCreate gives, from none on.
  virtual void TrackChanges() = 0;
  // Whether it has given the row of this key since, and the walk over the rows it has.
  // REQUIRES: TrackChanges was called; no Relayout or Clear since.
  virtual bool IsChanged(int64_t key) const = 0;
  virtual int64_t WalkChanged(int64_t cursor, int64_t max_rows, std::vector<int64_t>* keys,
                              std::vector<const float*>* records) const = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_FIRST_TIER_FIRST_TIER_H_
