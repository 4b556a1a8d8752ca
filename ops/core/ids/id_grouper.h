// Finds the distinct ids of a part and where each of them occurs.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_ID_GROUPER_H_
#define KERAS_SPARSE_OPS_CORE_IDS_ID_GROUPER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keras_sparse {

// Numbers them first, by the rows themselves where there are few, otherwise by a small hash table;
// a counting sort by number then finds their occurrences. Meant to be used again and again by one
// thread: its memory stays.
class IdGrouper {
 public:
  // Number and Sort of ids that may be any.
  void Group(const int64_t* ids, const uint32_t* positions, int64_t n) {
    Number(ids, n);
    Sort(positions);
  }

  // Finds the distinct ids.
  //   ids       (n)
  //   num_rows  ids are in [0, num_rows); 0 if they may be any
  void Number(const int64_t* ids, int64_t n, int64_t num_rows = 0);

  // Distinct ids: rising if there are at most kMaxRowsPerId rows for each of `n` ids, which makes
  // of their rows a walk through memory; else in the order in which they first occur.
  int64_t num_unique() const { return num_unique_; }
  const int64_t* unique_ids() const { return unique_ids_.data() + 1; }

  // (n) which of the distinct ids each id is.
  const uint32_t* numbers() const { return numbers_.data(); }

  // Finds the occurrences of the distinct ids that Number has found.
  //   positions  (n) as what each id's occurrence is known; null means 0, 1, 2, ...
  void Sort(const uint32_t* positions);

  // Where unique id `u` occurs, in input order.
  // REQUIRES, of both: Sort since the last Number
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
  std::vector<uint64_t> row_bits_;     // whether a row occurs, 64 rows a word
  std::vector<uint32_t> row_numbers_;  // of the first row of each word that occurs
  std::vector<uint32_t>
      slots_;  // of the hash table: the place of an id among the unique ones, or 0
  std::vector<int64_t> unique_ids_{0};  // from place 1 on
  std::vector<uint32_t> numbers_;       // (n)
  std::vector<uint32_t> offsets_;       // by number, once sorted: where the occurrences begin
  std::vector<uint32_t> order_;         // (n) positions, grouped by unique id
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_ID_GROUPER_H_
