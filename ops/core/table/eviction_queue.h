// EvictionQueue: the rows of a table that go first, ready for the updates that need room.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_QUEUE_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/hash.h"
#include "ops/core/base/status.h"
#include "ops/core/index/hash_index.h"

namespace keras_sparse {

struct TableState;

// Rows that an eviction lets go, before they do.
struct EvictionCandidates {
  std::vector<int64_t> keys;  // first those of the first tier
  size_t num_above = 0;       // how many these are
};

// Whether a key is among those of an index.
inline bool HasKey(const HashIndex& keys, int64_t key) {
  return keys.Find(HashKey(key), key) != HashIndex::kNoRow;
}

// Rows stand in the order in which they go: first those whose last gradient lies furthest back, of
// rows of one step those of the lowest keys.
//
// The first ones are found by a walk over all rows, which would be long for every step of a full
// table. So a walk keeps many more than are needed, and later updates take theirs from these:
// whatever is not among them came after all of them, and since then a gradient, or being new, has
// only taken rows towards the end. One that is among them is looked at before it goes, as it may
// have had a gradient since. So the rows that go are the first ones of all, whenever the last walk
// was.
//
// Thread safety: needs its table alone.
class EvictionQueue {
 public:
  // The first `n` rows but for those of `kept`, all of them if there are no more. Changes nothing
  // of the table.
  Status Find(const TableState& state, int64_t n, const HashIndex& kept,
              EvictionCandidates* candidates);

  // Says that the version of the table goes from one to another, for a change in which rows have
  // gone, have moved between tiers, or were made or updated by gradients. What changes more than
  // that says nothing, and the next Find walks.
  void Follow(int64_t from, int64_t to) {
    if (version_ == from) version_ = to;
  }

  int64_t bytes() const { return static_cast<int64_t>(sorted_.capacity() * sizeof(Entry)); }

 private:
  struct Entry {
    int64_t step;  // of the last gradient, counted from the walk on
    int64_t key;
    uint32_t search;  // the call of Find that has looked at the row

    bool GoesBefore(const Entry& other) const {
      return step != other.step ? step < other.step : key < other.key;
    }
  };

  // Keeps the first rows of the table, at least this many.
  Status Walk(const TableState& state, int64_t least);
  // Looks at the rows of the first `n` entries, and drops those that are no more where they were.
  Status LookAt(const TableState& state, int64_t n);
  // Takes those entries off that go first and have been looked at, `n` keys and what is kept.
  void Take(int64_t n, const HashIndex& kept, std::vector<Entry>* taken,
            std::vector<int64_t>* keys);
  void PutBack(const std::vector<Entry>& entries) {
    sorted_.insert(sorted_.end(), entries.rbegin(), entries.rend());
  }

  int64_t version_ = -1;    // of the table; -1 before the first walk
  uint32_t num_steps_ = 0;  // of the table, at the walk
  uint32_t search_ = 0;
  std::vector<Entry> sorted_;  // the one that goes first is the last one
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_QUEUE_H_
