#include "ops/core/ids/bags_hash.h"

namespace keras_sparse {
namespace {

template <typename T>
ListHash HashOfList(const T* numbers, int64_t n) {
  ListHash hash;
  for (int64_t i = 0; i < n; ++i) hash.Add(numbers[i], i);
  return hash;
}

}  // namespace

BagsHash HashOf(const BagsToHash& lists) {
  const Bags& bags = lists.bags;
  const bool is_pooled = bags.combiner != Combiner::kNone;
  return {HashOfList(lists.ids, bags.num_ids),
          HashOfList(bags.row_splits, is_pooled ? bags.num_bags + 1 : 0),
          HashOfList(bags.weights, bags.weights == nullptr ? 0 : bags.num_ids)};
}

}  // namespace keras_sparse
