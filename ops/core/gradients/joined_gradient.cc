#include "ops/core/gradients/joined_gradient.h"

#include <algorithm>
#include <cstddef>

namespace keras_sparse {

JoinedGradient::JoinedGradient(const std::vector<OutputGradient>& gradients)
    : gradient_(gradients[0]) {
  if (gradients.size() == 1) return;
  const bool has_weights =
      !std::all_of(gradients.begin(), gradients.end(),
                   [](const OutputGradient& each) { return CountsOnce(each.bags); });
  int64_t num_ids = 0;
  int64_t num_bags = 0;
  for (const OutputGradient& each : gradients) {
    num_ids += each.bags.num_ids;
    num_bags += each.bags.num_bags;
  }
  const FloatType type = gradients[0].grads.type;
  ids_.reserve(static_cast<size_t>(num_ids));
  grads_.reserve(static_cast<size_t>(num_bags * gradient_.dim * FloatBytes(type)));
  row_splits_.reserve(static_cast<size_t>(num_bags) + 1);
  row_splits_.push_back(0);
  for (const OutputGradient& each : gradients) Append(each, has_weights);
  gradient_.ids = ids_.data();
  gradient_.bags = {Combiner::kSum, num_ids, num_bags, row_splits_.data(),
                    has_weights ? weights_.data() : nullptr};
  gradient_.grads = GradientRows(grads_.data(), 0, type);
}

void JoinedGradient::Append(const OutputGradient& gradient, bool has_weights) {
  const Bags& bags = gradient.bags;
  const GradientRows grads = gradient.grads.Of(gradient.dim);
  const auto row_bytes = static_cast<size_t>(FloatBytes(grads.type) * gradient.dim);
  const auto before = static_cast<int64_t>(ids_.size());
  ids_.insert(ids_.end(), gradient.ids, gradient.ids + bags.num_ids);
  for (int64_t b = 0; b < bags.num_bags; ++b) {
    const bool pools = bags.combiner != Combiner::kNone;
    const int64_t begin = pools ? bags.row_splits[b] : b;
    const int64_t end = pools ? bags.row_splits[b + 1] : b + 1;
    row_splits_.push_back(before + end);
    const auto* row = static_cast<const char*>(grads.Row(b));
    grads_.insert(grads_.end(), row, row + row_bytes);
    if (!has_weights) continue;
    const float scale = bags.Scale(b);
    for (int64_t i = begin; i < end; ++i) {
      weights_.push_back(bags.weights == nullptr ? scale : scale * bags.weights[i]);
    }
  }
}

}  // namespace keras_sparse
