#include "ops/core/ids/bags.h"

namespace keras_sparse {

Status ParseCombiner(const std::string& name, Combiner* combiner) {
  if (name == "none") {
    *combiner = Combiner::kNone;
  } else if (name == "sum") {
    *combiner = Combiner::kSum;
  } else if (name == "mean") {
    *combiner = Combiner::kMean;
  } else if (name == "sqrtn") {
    *combiner = Combiner::kSqrtN;
  } else {
    return InvalidArgument(
        "`combiner` must be one of ('none', 'sum', 'mean', 'sqrtn'). Received: combiner='" + name +
        "'");
  }
  return Status::Ok();
}

Status Bags::CheckSizes() const {
  if (num_ids >= (int64_t{1} << 32) || num_bags >= (int64_t{1} << 32)) {
    return InvalidArgument("an op takes fewer than 2^32 ids and bags a table. Received: " +
                           std::to_string(num_ids) + " ids, " + std::to_string(num_bags) + " bags");
  }
  if (combiner != Combiner::kNone && num_bags == 0 && num_ids != 0) {
    return InvalidArgument("`row_splits` must rise from 0 to the number of ids, " +
                           std::to_string(num_ids) + ". Received: row_splits of no bags");
  }
  return Status::Ok();
}

Status Bags::Check() const {
  KERAS_SPARSE_RETURN_IF_ERROR(CheckSizes());
  if (combiner == Combiner::kNone) return Status::Ok();
  bool rises = row_splits[0] == 0 && row_splits[num_bags] == num_ids;
  for (int64_t b = 0; b < num_bags; ++b) rises &= row_splits[b] <= row_splits[b + 1];
  if (rises) return Status::Ok();
  return InvalidArgument(
      "`row_splits` must rise from 0 to the number of ids, " + std::to_string(num_ids) +
      ", and the indices of a SparseTensor lie within its dense_shape. Received: row_splits[0] = " +
      std::to_string(row_splits[0]) + ", row_splits[" + std::to_string(num_bags) +
      "] = " + std::to_string(row_splits[num_bags]));
}

std::vector<int64_t> CutBags(const Bags& bags, int64_t ids_per_run) {
  // A bag weighs its ids plus one, because an empty bag is work too.
  const auto weight_before = [&bags](int64_t bag) {
    return (bags.combiner == Combiner::kNone ? bag : bags.row_splits[bag]) + bag;
  };
  const int64_t total = weight_before(bags.num_bags);
  std::vector<int64_t> cuts = {0};
  for (int64_t target = 2 * ids_per_run; target < total; target += 2 * ids_per_run) {
    int64_t low = cuts.back();
    int64_t high = bags.num_bags;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (weight_before(middle) < target) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low > cuts.back() && low < bags.num_bags) cuts.push_back(low);
  }
  cuts.push_back(bags.num_bags);
  return cuts;
}

}  // namespace keras_sparse
