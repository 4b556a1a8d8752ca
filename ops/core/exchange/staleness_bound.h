// How old staged rows can be, before ranks have told each other.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_STALENESS_BOUND_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_STALENESS_BOUND_H_

#include <cstdint>
#include <mutex>
#include <vector>

namespace keras_sparse {

// Where ranks last agreed on a staged lookup each said how many updates its rows had missed. Those
// of a later round were read later. So they have missed at most as many, and those since: as many
// as of own tables, if these had one for every exchange of gradients at the least. All ranks take
// part in such an exchange, whatever they train.
//
// Thread safety: every method may be called from any thread.
class StalenessBound {
 public:
  // What a rank knows of a lookup before it asks others.
  struct Lookup {
    int64_t stage = 0;  // the number of the stage that made it ready
    int64_t round = 0;
    // Of this rank's tables as the lookup begins: updates, which go around, and other changes. New
    // weights and loaded ones come to all ranks.
    std::vector<uint32_t> num_updates;
    std::vector<int64_t> num_other_changes;
    int64_t num_gradients = 0;  // as num_gradients() was then
  };

  // Notes an exchange of gradients.
  void CountGradients();
  int64_t num_gradients() const;

  // Notes what all ranks agreed on.
  //   staleness  of the rows of any rank
  void Agree(Lookup lookup, int64_t staleness);
  // Ranks did not agree: what was known is no more.
  void Forget();

  // Updates that the rows of any rank can have missed; -1 if that is not known.
  int64_t MostMissed(const Lookup& lookup) const;

 private:
  mutable std::mutex mutex_;
  int64_t num_gradients_ = 0;
  bool is_known_ = false;
  Lookup agreed_;
  int64_t staleness_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_STALENESS_BOUND_H_
