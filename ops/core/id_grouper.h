// Finds the distinct ids of a part and where each of them occurs.
#ifndef KERAS_SPARSE_OPS_CORE_ID_GROUPER_H_
#define KERAS_SPARSE_OPS_CORE_ID_GROUPER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keras_sparse {

// A counting sort, by the rows themselves where there are few, otherwise by a small hash table.
// Meant to be used again and again by one thread: its memory stays.
class IdGrouper {
 public:
  // ids        (n)
  // positions  (n) as what each id's occurrence is known; null means 0, 1, 2, ...
  // num_rows   ids are in [0, num_rows); 0 if they may be any
  void Group(const int64_t* ids, const uint32_t* positions, int64_t n, int64_t num_rows = 0);

  // Distinct ids: rising if there are at most kMaxRowsPerId rows for each of `n` ids, which makes
  // of their rows a walk through memory; else in the order in which they first occur.
  int64_t num_unique() const { return num_unique_; }
  const int64_t* unique_ids() const { return unique_ids_.data() + 1; }

  // Where unique id `u` occurs, in input order.
  const uint32_t* occurrences(int64_t u) const {
    return order_.data() + offsets_[static_cast<size_t>(u)];
  }
  int64_t num_occurrences(int64_t u) const {
    return offsets_[static_cast<size_t>(u) + 1] - offsets_[static_cast<size_t>(u)];
  }

 private:
  static constexpr int64_t kMaxRowsPerId = 4;

  // Find the distinct ids, and how often each occurs. `size` is that of the ids.
  void GroupRows(const int64_t* ids, const uint32_t* positions, size_t size, int64_t num_rows);
  void GroupHashed(const int64_t* ids, const uint32_t* positions, size_t size);

  // Unique ids have the numbers 1, 2, ... here.
  int64_t num_unique_ = 0;
  std::vector<uint32_t> slots_;         // of the hash table: the number of an id, or 0
  std::vector<int64_t> unique_ids_{0};  // by number
  std::vector<uint32_t> number_of_;     // (n)
  std::vector<uint32_t> row_places_;    // (num_rows) where the next occurrence of a row goes
  std::vector<uint32_t> offsets_;       // by number: where the next id's occurrences begin
  std::vector<uint32_t> order_;         // (n) positions, grouped by unique id
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_ID_GROUPER_H_
