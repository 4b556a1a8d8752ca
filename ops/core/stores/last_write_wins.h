// LastWriteWins: the order in which the records of a store were put.
#ifndef KERAS_SPARSE_OPS_CORE_STORES_LAST_WRITE_WINS_H_
#define KERAS_SPARSE_OPS_CORE_STORES_LAST_WRITE_WINS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keras_sparse {

// A doubly linked list of positions, 8 bytes each, with removal in constant time.
//
// Thread safety: const methods may overlap; any other call needs exclusive access to the list.
class LastWriteWins {
 public:
  static constexpr uint32_t kEnd = 0xFFFFFFFFu;

  // Makes room for positions below `num_positions`; never shrinks.
  void Resize(size_t num_positions) { links_.resize(num_positions); }
  int64_t bytes() const { return static_cast<int64_t>(links_.size() * sizeof(Link)); }

  // REQUIRES: the position is not in the list
  void Append(uint32_t position) {
    links_[position] = {last_, kEnd};
    (last_ == kEnd ? first_ : links_[last_].next) = position;
    last_ = position;
  }

  // REQUIRES: the position is in the list
  void Remove(uint32_t position) {
    const Link link = links_[position];
    (link.previous == kEnd ? first_ : links_[link.previous].next) = link.next;
    (link.next == kEnd ? last_ : links_[link.next].previous) = link.previous;
  }

  // Iterates from the oldest to the newest, then returns kEnd.
  uint32_t first() const { return first_; }
  uint32_t Next(uint32_t position) const { return links_[position].next; }

 private:
  struct Link {
    uint32_t previous;
    uint32_t next;
  };

  std::vector<Link> links_;
  uint32_t first_ = kEnd;
  uint32_t last_ = kEnd;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_STORES_LAST_WRITE_WINS_H_
