// What has become of a table's rows since a checkpoint, beside what its first tier knows.
#ifndef KERAS_SPARSE_OPS_CORE_TABLE_CHANGE_LOG_H_
#define KERAS_SPARSE_OPS_CORE_TABLE_CHANGE_LOG_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/hash.h"
#include "ops/core/index/hash_index.h"

namespace keras_sparse {

// The first tier knows which of its rows have changed. Here are the keys of the changed rows that
// it gave to a lower tier, and the keys whose rows are gone.
//
// Before the first checkpoint, and after what concerns all rows, every row counts as changed, and
// nothing is kept.
//
// Thread safety: const methods may overlap; any other call needs the log alone.
class ChangeLog {
 public:
  bool is_everything() const { return is_everything_; }
  void SetEverything() { *this = ChangeLog(); }
  // Nothing has changed yet.
  void Begin() {
    SetEverything();
    is_everything_ = false;
  }

  void AddDemoted(int64_t key) { Add(key, &demoted_); }
  void AddErased(int64_t key) { Add(key, &erased_); }

  // The walks over both: each appends the next keys, about `max_keys`, from cursor 0 on, and
  // returns the next cursor, or -1. Keys come in no order, each once. A demoted row may have come
  // up again, or be gone; an erased one may be there again, or still, where erasing it failed.
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
