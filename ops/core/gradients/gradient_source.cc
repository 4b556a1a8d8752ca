#include "ops/core/gradients/gradient_source.h"

#include <type_traits>

namespace keras_sparse {
namespace {

constexpr int64_t kIdsPerSourceRun = 4096;
constexpr int64_t kNanosecondsPerRun = 8000;

// Some consecutive bags of one gradient.
struct SourceRun {
  size_t gradient;
  int64_t first_bag;
  int64_t last_bag;
};

}  // namespace

std::vector<GradientSource> GradientSource::Make(const std::vector<OutputGradient>& gradients,
                                                 Executor* executor) {
  std::vector<GradientSource> sources;
  std::vector<SourceRun> runs;
  for (size_t g = 0; g < gradients.size(); ++g) {
    sources.push_back(GradientSource(gradients[g]));
    if (gradients[g].bags.combiner == Combiner::kNone) continue;
    const std::vector<int64_t> cuts = CutBags(gradients[g].bags, kIdsPerSourceRun);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) runs.push_back({g, cuts[i], cuts[i + 1]});
  }
  executor->ParallelFor(
      static_cast<int64_t>(runs.size()), kNanosecondsPerRun, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const SourceRun& run = runs[static_cast<size_t>(r)];
          sources[run.gradient].FillBags(gradients[run.gradient].bags, run.first_bag, run.last_bag);
        }
      });
  return sources;
}

void GradientSource::Scatter(const uint32_t* names, const uint32_t* numbers, int64_t n,
                             float* sums) const {
  if (!grads_.are_floats()) return ScatterDecoded(names, numbers, n, sums);
  // Local copies, because to the compiler the members might change with each sum.
  const float* grads = grads_.FloatRow(0);
  const float* coefficients = coefficients_.get();
  const uint32_t* bag_of = bag_of_.get();
  const auto scatter = [=, own_dim = dim_, stride = grads_.stride](auto constant_dim) {
    const int64_t dim = constant_dim > 0 ? constant_dim : own_dim;
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t name = names == nullptr ? static_cast<uint32_t>(i) : names[i];
      const uint32_t bag = coefficients == nullptr ? name : bag_of[name];
      AddScaled(coefficients == nullptr ? 1.0f : coefficients[name], grads + int64_t{bag} * stride,
                dim, sums + int64_t{numbers[i]} * dim);
    }
  };
  // Unrolls the loops over the columns of the usual widths.
  switch (dim_) {
    case 4:
      return scatter(std::integral_constant<int64_t, 4>());
    case 8:
      return scatter(std::integral_constant<int64_t, 8>());
    case 16:
      return scatter(std::integral_constant<int64_t, 16>());
    case 32:
      return scatter(std::integral_constant<int64_t, 32>());
    case 64:
      return scatter(std::integral_constant<int64_t, 64>());
    default:
      return scatter(std::integral_constant<int64_t, 0>());
  }
}

void GradientSource::SumDecoded(const uint32_t* names, int64_t n, float* sum) const {
  std::fill_n(sum, dim_, kEmptySum);
  for (int64_t i = 0; i < n; ++i) {
    AddScaled(grads_.type, Coefficient(names[i]), grads_.Row(Bag(names[i])), dim_, sum);
  }
}

void GradientSource::ScatterDecoded(const uint32_t* names, const uint32_t* numbers, int64_t n,
                                    float* sums) const {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t name = names == nullptr ? static_cast<uint32_t>(i) : names[i];
    AddScaled(grads_.type, Coefficient(name), grads_.Row(Bag(name)), dim_,
              sums + int64_t{numbers[i]} * dim_);
  }
}

GradientSource::GradientSource(const OutputGradient& gradient)
    : grads_(gradient.grads.Of(gradient.dim)), dim_(gradient.dim) {
  const Bags& bags = gradient.bags;
  if (bags.combiner == Combiner::kNone) return;
  const auto num_ids = static_cast<size_t>(bags.num_ids);
  // Arrays, because vectors would write zeros first.
  bag_of_.reset(new uint32_t[num_ids]);
  if (bags.weights != nullptr || bags.combiner != Combiner::kSum) {
    coefficients_.reset(new float[num_ids]);
  }
}

void GradientSource::FillBags(const Bags& bags, int64_t first_bag, int64_t last_bag) {
  // Writes whole vectors: the next bag overwrites the excess of the previous one. A loop over the
  // few ids of a bag would cost one mispredicted branch per bag.
  constexpr int64_t kVector = 8;
  const int64_t last = bags.row_splits[last_bag];
  for (int64_t b = first_bag; b < last_bag; ++b) {
    const int64_t end = bags.row_splits[b + 1];
    const auto bag = static_cast<uint32_t>(b);
    int64_t i = bags.row_splits[b];
    for (; i < end && i + kVector <= last; i += kVector) std::fill_n(&bag_of_[i], kVector, bag);
    for (; i < end; ++i) bag_of_[static_cast<size_t>(i)] = bag;
  }
  if (coefficients_ == nullptr) return;
  for (int64_t b = first_bag; b < last_bag; ++b) {
    const float scale = bags.Scale(b);
    for (int64_t i = bags.row_splits[b]; i < bags.row_splits[b + 1]; ++i) {
      coefficients_[static_cast<size_t>(i)] =
          bags.weights == nullptr ? scale : scale * bags.weights[i];
    }
  }
}

}  // namespace keras_sparse
