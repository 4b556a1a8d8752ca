// IdGrouper: finds the distinct ids of a part and their occurrences.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_ID_GROUPER_H_
#define KERAS_SPARSE_OPS_CORE_IDS_ID_GROUPER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keras_sparse {

// First numbers the ids, by the rows themselves if there are few, otherwise by a small hash table.
// A counting sort by number then finds the occurrences. Meant to be reused by one thread, because
// it keeps its memory.
class IdGrouper {
 public:
  // Calls Number, for ids in any range, and Sort.
  void Group(const int64_t* ids, const uint32_t* positions, int64_t n) {
    Number(ids, n);
    Sort(positions);
  }

  // Finds the distinct ids.
  //   ids       (n)
  //   num_rows  ids are in [0, num_rows); 0 for ids in any range
  void Number(const int64_t* ids, int64_t n, int64_t num_rows = 0);

  // The distinct ids: sorted if there are at most kMaxRowsPerId rows for each of `n` ids, so that
  // their rows are read in the order of memory; else in the order of first occurrence.
  int64_t num_unique() const { return num_unique_; }
  const int64_t* unique_ids() const { return unique_ids_.data() + 1; }

  // (n) the number of each id among the distinct ids.
  const uint32_t* numbers() const { return numbers_.data(); }

  // Finds the occurrences of the distinct ids that Number has found.
  //   positions  (n) the name of each id's occurrence; null means 0, 1, 2, ...
  void Sort(const uint32_t* positions);

  // Returns the occurrences of unique id `u`, in input order.
  // REQUIRES for both: Sort was called since the last Number
  const uint32_t* occurrences(int64_t u) const {
    return order_.data() + offsets_[static_cast<size_t>(u)];
  }
  int64_t num_occurrences(int64_t u) const {
    return offsets_[static_cast<size_t>(u) + 1] - offsets_[static_cast<size_t>(u)];
  }

 private:
  static constexpr int64_t kMaxRowsPerId = 4;

  void NumberRows(const int64_t* ids, int64_t num_rows);
  void NumberHashed(const int64_t* ids);

  int64_t num_unique_ = 0;
  std::vector<uint64_t> row_bits_;     // whether each row occurs, 64 rows per word
  std::vector<uint32_t> row_numbers_;  // number of the first occurring row of each word
  std::vector<uint32_t> slots_;  // of the hash table: position of an id among the unique ids, or 0
  std::vector<int64_t> unique_ids_{0};  // starting at position 1
  std::vector<uint32_t> numbers_;       // (n)
  std::vector<uint32_t> offsets_;       // start of each number's occurrences, once sorted
  std::vector<uint32_t> order_;         // (n) positions, grouped by unique id
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_ID_GROUPER_H_
