#include "ops/core/gradient_source.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerBag = 20;

}  // namespace

GradientSource::GradientSource(const OutputGradient& gradient, Executor* executor)
    : grads_(gradient.grads), dim_(gradient.dim) {
  const Bags& bags = gradient.bags;
  if (bags.combiner == Combiner::kNone) return;
  const auto num_ids = static_cast<size_t>(bags.num_ids);
  // Not vectors: nobody needs the zeros.
  bag_of_.reset(new uint32_t[num_ids]);
  if (bags.weights != nullptr || bags.combiner != Combiner::kSum) {
    coefficients_.reset(new float[num_ids]);
  }
  executor->ParallelFor(bags.num_bags, kNanosecondsPerBag, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const float scale = coefficients_ == nullptr ? 1 : bags.Scale(b);
      for (int64_t i = bags.row_splits[b]; i < bags.row_splits[b + 1]; ++i) {
        const auto position = static_cast<size_t>(i);
        bag_of_[position] = static_cast<uint32_t>(b);
        if (coefficients_ != nullptr) {
          coefficients_[position] = bags.weights == nullptr ? scale : scale * bags.weights[i];
        }
      }
    }
  });
}

}  // namespace keras_sparse
