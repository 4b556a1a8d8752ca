#include "ops/core/ids/bags.h"

#include <algorithm>
#include <cmath>

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

Status Bags::Check() const {
  if (num_ids >= (int64_t{1} << 32) || num_bags >= (int64_t{1} << 32)) {
    return InvalidArgument("an op takes fewer than 2^32 ids and bags a table. Received: " +
                           std::to_string(num_ids) + " ids, " + std::to_string(num_bags) + " bags");
  }
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

float Bags::Scale(int64_t bag) const {
  if (combiner == Combiner::kNone || combiner == Combiner::kSum) return 1;
  const int64_t begin = row_splits[bag];
  const int64_t end = row_splits[bag + 1];
  float total = weights == nullptr ? static_cast<float>(end - begin) : 0;
  if (weights != nullptr) {
    for (int64_t i = begin; i < end; ++i) {
      total += combiner == Combiner::kMean ? weights[i] : weights[i] * weights[i];
    }
  }
  if (total == 0) return 0;
  return 1 / (combiner == Combiner::kMean ? total : std::sqrt(total));
}

void Bags::FinishWeightsGradient(int64_t first_bag, int64_t last_bag, float* grads) const {
  if (combiner == Combiner::kSum) return;
  // The divisor's share: with s the scale and p = sum(w * product) * s, the product of the output
  // and its gradient, d/dw_i is s * (product_i - p) for the mean and s * (product_i - p * s * w_i)
  // for sqrtn.
  for (int64_t b = first_bag; b < last_bag; ++b) {
    const float scale = Scale(b);
    float output_product = 0;
    for (int64_t i = row_splits[b]; i < row_splits[b + 1]; ++i) {
      output_product += weights[i] * grads[i];
    }
    output_product *= scale;
    for (int64_t i = row_splits[b]; i < row_splits[b + 1]; ++i) {
      const float share = combiner == Combiner::kMean ? 1 : scale * weights[i];
      grads[i] = scale * (grads[i] - output_product * share);
    }
  }
}

std::vector<int64_t> CutBags(const Bags& bags, int64_t ids_per_run) {
  // A bag weighs its ids and one, for an empty bag is work too.
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
