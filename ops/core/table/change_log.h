// ChangeLog: the keys of rows that were demoted or erased since a checkpoint.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_CHANGE_LOG_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_CHANGE_LOG_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/hash.h"
#include "ops/core/index/hash_index.h"

namespace keras_sparse {

// The first tier tracks the changed rows that it holds. This log adds the keys of changed rows that
// were demoted to a lower tier, and the keys of erased rows.
//
// Every row counts as changed before the first checkpoint, and after a change to all rows. The log
// is then empty.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the log.
class ChangeLog {
 public:
  bool is_everything() const { return is_everything_; }
  void SetEverything() { *this = ChangeLog(); }
  // Starts a log in which no row has changed.
  void Begin() {
    SetEverything();
    is_everything_ = false;
  }

  void AddDemoted(int64_t key) { Add(key, &demoted_); }
  void AddErased(int64_t key) { Add(key, &erased_); }

  // Both methods walk over the log, starting with cursor 0. Each call appends about `max_keys` keys
  // and returns the next cursor, or -1 at the end. Keys are in no order and appear once. A demoted
  // row may since have been promoted or erased. An erased row may exist again, or still exist if
  // its erase failed.
  int64_t AppendDemoted(int64_t cursor, int64_t max_keys, std::vector<int64_t>* keys) const {
    return Append(demoted_, cursor, max_keys, keys);
  }
  int64_t AppendErased(int64_t cursor, int64_t max_keys, std::vector<int64_t>* keys) const {
    return Append(erased_, cursor, max_keys, keys);
  }

  int64_t bytes() const { return demoted_.bytes() + erased_.bytes(); }

 private:
  void Add(int64_t key, HashIndex* keys) {
    if (!is_everything_) (void)keys->Exchange(HashKey(key), key, 0);
  }
  static int64_t Append(const HashIndex& index, int64_t cursor, int64_t max_keys,
                        std::vector<int64_t>* keys) {
    std::vector<uint32_t> rows;
    return index.AppendSegments(cursor, max_keys, keys, &rows);
  }

  bool is_everything_ = true;
  HashIndex demoted_{0};
  HashIndex erased_{0};
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_TABLE_CHANGE_LOG_H_
