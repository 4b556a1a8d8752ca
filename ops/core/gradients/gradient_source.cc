#include "ops/core/gradients/gradient_source.h"

#include <algorithm>
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

void ScatteredSums::EndRun(uint32_t number, int64_t dim) {
  float* sum = sums.data() + int64_t{number} * dim;
  runs.emplace_back(number, run_sums.size());
  run_sums.insert(run_sums.end(), sum, sum + dim);
  std::fill_n(sum, dim, kEmptySum);
}

void ScatteredSums::AddRuns(int64_t dim) {
  std::sort(runs.begin(), runs.end());
  std::vector<const float*> rows;
  std::vector<float> last_run;
  for (size_t r = 0; r < runs.size();) {
    const uint32_t number = runs[r].first;
    float* sum = sums.data() + int64_t{number} * dim;
    rows.clear();
    for (; r < runs.size() && runs[r].first == number; ++r) {
      rows.push_back(run_sums.data() + runs[r].second);
    }
    last_run.assign(sum, sum + dim);
    rows.push_back(last_run.data());
    SumGradients(RowGradients{FloatType::kFloat32, dim, false,
                              [&](int64_t i) { return rows[static_cast<size_t>(i)]; },
                              [](int64_t) { return 1.0f; }},
                 0, static_cast<int64_t>(rows.size()), sum);
  }
  runs.clear();
  run_sums.clear();
}

void GradientSource::Scatter(const uint32_t* names, const uint32_t* numbers, int64_t n,
                             int64_t num_sums, ScatteredSums* to) const {
  static_assert(kGradientsPerRun == 256, "8 bits count the gradients of a run");
  to->sums.assign(static_cast<size_t>(num_sums * dim_), kEmptySum);
  to->counts.assign(static_cast<size_t>(num_sums), 0);
  // Local copies, because to the compiler the members might change with each sum.
  const float* coefficients = coefficients_.get();
  const uint32_t* bag_of = bag_of_.get();
  float* sums = to->sums.data();
  uint8_t* counts = to->counts.data();
  const auto scatter_all = [=, own_dim = dim_, grads = grads_](auto constant_dim, auto scales) {
    const int64_t dim = constant_dim > 0 ? constant_dim : own_dim;
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t name = names == nullptr ? static_cast<uint32_t>(i) : names[i];
      const uint32_t number = numbers[i];
      const uint32_t bag = scales ? bag_of[name] : name;
      const float coefficient = scales ? coefficients[name] : 1.0f;
      float* sum = sums + int64_t{number} * dim;
      if constexpr (constant_dim < 0) {
        AddScaled(grads.type, coefficient, grads.Row(bag), dim, sum);
      } else {
        AddScaled(coefficient, grads.FloatRow(bag), dim, sum);
      }
      if (++counts[number] == 0) to->EndRun(number, dim);
    }
    to->AddRuns(dim);
  };
  const auto scatter = [=](auto constant_dim) {
    if (coefficients == nullptr) return scatter_all(constant_dim, std::false_type());
    scatter_all(constant_dim, std::true_type());
  };
  // Unrolls the loops over the columns of the usual widths. -1 is for gradients in 16 bits.
  switch (grads_.are_floats() ? dim_ : -1) {
    case -1:
      return scatter(std::integral_constant<int64_t, -1>());
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

void GradientSource::SumAny(const uint32_t* names, int64_t n, float* sum) const {
  SumGradients(RowGradients{grads_.type, dim_, !counts_once(),
                            [=](int64_t i) { return grads_.Row(Bag(names[i])); },
                            [=](int64_t i) { return coefficients_[names[i]]; }},
               0, n, sum);
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
