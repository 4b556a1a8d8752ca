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
// rows of one step those of the lowest keys. Or else first those of the least frequency, of rows of
// one frequency in that order.
//
// The first ones are found by a walk over all rows, which would be long for every step of a full
// table. So a walk keeps many more than are needed, and later updates take theirs from these:
// whatever is not among them came after all of them, and since then gradients have only taken rows
// towards the end. One that is among them is looked at before it goes, and takes its new place if
// it had a gradient since. A new row is the last one by its step, but one of the first by its
// frequency; so updates say which keys may get rows. So the rows that go are the first ones of all,
// whenever the last walk was.
//
// Thread safety: needs its table alone.
class EvictionQueue {
 public:
  explicit EvictionQueue(bool by_frequency = false) : by_frequency_(by_frequency) {}

  // Whether Expect must be told of the keys of each update, also where it needs no room.
  bool expects_keys(int64_t version) const { return by_frequency_ && version_ == version; }
  // Takes up the keys that an update will make rows for, perhaps not for all of them; what it was
  // told before has happened, or will not.
  Status Expect(const TableState& state, const std::vector<int64_t>& keys);

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

  int64_t bytes() const {
    return static_cast<int64_t>((sorted_.capacity() + moved_.capacity()) * sizeof(Entry) +
                                expected_.capacity() * sizeof(int64_t));
  }

 private:
  struct Entry {
    int64_t step = INT64_MIN;  // of the last gradient, counted from the walk on
    int64_t key = INT64_MIN;
    uint32_t frequency = 0;  // 0 where that says nothing
    uint32_t search = 0;     // the call of Find that has looked at the row

    bool GoesBefore(const Entry& other) const {
      if (frequency != other.frequency) return frequency < other.frequency;
      return step != other.step ? step < other.step : key < other.key;
    }
    static bool Follows(const Entry& a, const Entry& b) { return b.GoesBefore(a); }
    bool IsAt(const Entry& other) const { return !GoesBefore(other) && !other.GoesBefore(*this); }
  };

  // As the row stands now.
  Entry EntryOf(const TableState& state, int64_t key, const float* record) const;
  bool empty() const { return sorted_.empty() && moved_.empty(); }
  // The one that goes first.
  const Entry& first() const { return IsMovedFirst() ? moved_.front() : sorted_.back(); }
  Entry PopFirst();
  bool IsMovedFirst() const {
    return sorted_.empty() || (!moved_.empty() && moved_.front().GoesBefore(sorted_.back()));
  }
  // Puts a row at its place, unless that is behind those that the walk has kept.
  void Move(const Entry& entry);
  void Clear();
  // Keeps the first rows of the table, at least this many.
  Status Walk(const TableState& state, int64_t least);
  // Looks at the rows of the first `n` entries, and moves those that are no more where they were.
  Status LookAt(const TableState& state, int64_t n);
  // Takes those entries off that go first and have been looked at, `n` keys and what is kept.
  void Take(int64_t n, const HashIndex& kept, std::vector<Entry>* taken,
            std::vector<int64_t>* keys);
  // REQUIRES: they go before all others, in their order
  void PutBack(const std::vector<Entry>& entries) {
    sorted_.insert(sorted_.end(), entries.rbegin(), entries.rend());
  }

  bool by_frequency_;
  int64_t version_ = -1;    // of the table; -1 before the first walk
  uint32_t num_steps_ = 0;  // of the table, at the walk
  uint32_t search_ = 0;
  Entry last_;                 // that the walk has kept
  std::vector<Entry> sorted_;  // the one that goes first is the last one
  std::vector<Entry> moved_;   // those with another place since the walk: a heap
  std::vector<int64_t> expected_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_QUEUE_H_
