// Finds the distinct ids of a part and where each of them occurs.
#ifndef KERAS_SPARSE_OPS_CORE_ID_GROUPER_H_
#define KERAS_SPARSE_OPS_CORE_ID_GROUPER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keras_sparse {

// A small hash table and a counting sort. Meant to be used again and again by one thread: its
// memory stays.
class IdGrouper {
 public:
  // ids        (n)
  // positions  (n) of each id in the op's input; null means 0, 1, 2, ...
  void Group(const int64_t* ids, const uint32_t* positions, int64_t n);

  // Distinct ids in the order in which they first occur.
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
  // Unique ids have the numbers 1, 2, ... here.
  int64_t num_unique_ = 0;
  std::vector<uint32_t> slots_;         // of the hash table: the number of an id, or 0
  std::vector<int64_t> unique_ids_{0};  // by number
  std::vector<uint32_t> number_of_;     // (n)
  std::vector<uint32_t> offsets_;       // by number: where the next id's occurrences begin
  std::vector<uint32_t> order_;         // (n) positions, grouped by unique id
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_ID_GROUPER_H_
