// EvictionQueue: the next rows to evict, ready for updates that need room.
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

// Rows that an eviction selects, before they are evicted.
struct EvictionCandidates {
  std::vector<int64_t> keys;  // keys in the first tier come first
  size_t num_above = 0;       // number of keys in the first tier
};

// Returns whether an index contains the key.
inline bool HasKey(const HashIndex& keys, int64_t key) {
  return keys.Find(HashKey(key), key) != HashIndex::kNoRow;
}

// Orders rows by eviction: the oldest last gradient first, and the lowest key first among rows with
// the same step. By frequency, the lowest frequency comes first, and rows of one frequency are in
// that same order.
//
// A walk over all rows finds the first rows, which is too slow for every step of a full table. So a
// walk keeps many more rows than are needed, and later updates evict from the kept rows. All other
// rows come later in the order, and since the walk gradients have only moved rows towards the end.
// The queue rereads a row before evicting it, and moves the row to its new place if it had a
// gradient since. By step, a new row is last; by frequency, it is one of the first, so updates
// announce the keys that may get rows. The queue therefore always evicts the first rows of the
// whole table, however old the walk is.
//
// Thread safety: needs exclusive access to its table.
class EvictionQueue {
 public:
  explicit EvictionQueue(bool by_frequency = false) : by_frequency_(by_frequency) {}

  // Returns whether Expect must be called with the keys of each update, even if it needs no room.
  bool expects_keys(int64_t version) const { return by_frequency_ && version_ == version; }
  // Takes the keys for which an update may create rows. Keys of earlier calls have become rows by
  // now, or never will.
  Status Expect(const TableState& state, const std::vector<int64_t>& keys);

  // Finds the first `n` rows except those of `kept`, or all of them if there are fewer. Does not
  // change the table.
  Status Find(const TableState& state, int64_t n, const HashIndex& kept,
              EvictionCandidates* candidates);

  // Records that the table has a new version after a change that erased rows, moved rows between
  // tiers, or created or updated rows by gradients. Other changes do not call this, so that the
  // next Find walks.
  void Follow(int64_t from, int64_t to) {
    if (version_ == from) version_ = to;
  }

  int64_t bytes() const {
    return static_cast<int64_t>((sorted_.capacity() + moved_.capacity()) * sizeof(Entry) +
                                expected_.capacity() * sizeof(int64_t));
  }

 private:
  struct Entry {
    int64_t step = INT64_MIN;  // of the last gradient, relative to the walk
    int64_t key = INT64_MIN;
    uint32_t frequency = 0;  // 0 if the order ignores frequencies
    uint32_t search = 0;     // the call of Find that has reread the row

    bool GoesBefore(const Entry& other) const {
      if (frequency != other.frequency) return frequency < other.frequency;
      return step != other.step ? step < other.step : key < other.key;
    }
    static bool Follows(const Entry& a, const Entry& b) { return b.GoesBefore(a); }
    bool IsAt(const Entry& other) const { return !GoesBefore(other) && !other.GoesBefore(*this); }
  };

  // Returns the entry for the row's current record.
  Entry EntryOf(const TableState& state, int64_t key, const float* record) const;
  bool empty() const { return sorted_.empty() && moved_.empty(); }
  // Returns the next entry to evict.
  const Entry& first() const { return IsMovedFirst() ? moved_.front() : sorted_.back(); }
  Entry PopFirst();
  bool IsMovedFirst() const {
    return sorted_.empty() || (!moved_.empty() && moved_.front().GoesBefore(sorted_.back()));
  }
  // Moves a row to its place, or drops the entry if its place is behind the rows that the walk
  // kept.
  void Move(const Entry& entry);
  void Clear();
  // Walks over the table and keeps at least `least` rows from the start of the order.
  Status Walk(const TableState& state, int64_t least);
  // Rereads the rows of the first `n` entries and moves entries whose place has changed.
  Status LookAt(const TableState& state, int64_t n);
  // Pops the first entries, which LookAt has reread, until `n` keys are found; keys of `kept` are
  // popped too.
  void Take(int64_t n, const HashIndex& kept, std::vector<Entry>* taken,
            std::vector<int64_t>* keys);
  // REQUIRES: `entries` come before all others and are in order
  void PutBack(const std::vector<Entry>& entries) {
    sorted_.insert(sorted_.end(), entries.rbegin(), entries.rend());
  }

  bool by_frequency_;
  int64_t version_ = -1;    // of the table; -1 before the first walk
  uint32_t num_steps_ = 0;  // of the table, at the walk
  uint32_t search_ = 0;
  Entry last_;                 // last entry that the walk kept
  std::vector<Entry> sorted_;  // the next to evict is at the back
  std::vector<Entry> moved_;   // a heap of entries that moved since the walk
  std::vector<int64_t> expected_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_EVICTION_QUEUE_H_
