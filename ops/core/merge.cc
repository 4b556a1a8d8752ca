#include "ops/core/merge.h"

#include <algorithm>
#include <utility>

#include "ops/core/gradient_source.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerPart = 20000;
constexpr int64_t kNanosecondsPerBag = 20;

}  // namespace

Status GradientMerger::Create(const std::vector<OutputGradient>& gradients, Executor* executor,
                              std::unique_ptr<GradientMerger>* merger) {
  auto result = std::make_unique<GradientMerger>();
  result->gradients_ = gradients;
  result->num_unique_.resize(gradients.size());
  result->bag_of_.resize(gradients.size());
  result->coefficients_.resize(gradients.size());
  std::vector<IdList> lists;
  for (size_t g = 0; g < gradients.size(); ++g) {
    const Bags& bags = gradients[g].bags;
    KERAS_SPARSE_RETURN_IF_ERROR(bags.Check());
    lists.push_back({gradients[g].ids, bags.num_ids, 16});
    if (bags.combiner == Combiner::kNone) continue;
    uint32_t* bag_of = new uint32_t[static_cast<size_t>(bags.num_ids)];
    result->bag_of_[g].reset(bag_of);
    float* coefficients = nullptr;
    if (bags.weights != nullptr || bags.combiner != Combiner::kSum) {
      coefficients = new float[static_cast<size_t>(bags.num_ids)];
      result->coefficients_[g].reset(coefficients);
    }
    executor->ParallelFor(bags.num_bags, kNanosecondsPerBag, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const float scale = coefficients == nullptr ? 1 : bags.Scale(b);
        for (int64_t i = bags.row_splits[b]; i < bags.row_splits[b + 1]; ++i) {
          bag_of[i] = static_cast<uint32_t>(b);
          if (coefficients != nullptr) {
            coefficients[i] = bags.weights == nullptr ? scale : scale * bags.weights[i];
          }
        }
      }
    });
  }
  result->partitions_ = PartitionIds(lists, executor);
  for (size_t g = 0; g < gradients.size(); ++g) {
    for (int64_t p = 0; p < result->partitions_[g].num_parts(); ++p) {
      result->parts_.push_back({g, p, 0, IdGrouper()});
    }
  }
  executor->ParallelFor(static_cast<int64_t>(result->parts_.size()), kNanosecondsPerPart,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            Part& part = result->parts_[static_cast<size_t>(i)];
                            const IdPartition& ids = result->partitions_[part.gradient];
                            part.groups.Group(ids.ids(part.index), ids.positions(part.index),
                                              ids.num_ids(part.index));
                          }
                        });
  for (Part& part : result->parts_) {
    part.first_unique = result->num_unique_[part.gradient];
    result->num_unique_[part.gradient] += part.groups.num_unique();
  }
  *merger = std::move(result);
  return Status::Ok();
}

int64_t GradientMerger::num_unique(size_t gradient) const { return num_unique_[gradient]; }

void GradientMerger::Write(const std::vector<Result>& results, Executor* executor) const {
  executor->ParallelFor(
      static_cast<int64_t>(parts_.size()), kNanosecondsPerPart, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const Part& part = parts_[static_cast<size_t>(i)];
          const OutputGradient& gradient = gradients_[part.gradient];
          const GradientSource source(gradient.grads, gradient.dim, bag_of_[part.gradient].get(),
                                      coefficients_[part.gradient].get());
          const Result& result = results[part.gradient];
          std::copy_n(part.groups.unique_ids(), part.groups.num_unique(),
                      result.ids + part.first_unique);
          for (int64_t u = 0; u < part.groups.num_unique(); ++u) {
            source.Sum(part.groups.occurrences(u), part.groups.num_occurrences(u),
                       result.values + (part.first_unique + u) * gradient.dim);
          }
        }
      });
}

}  // namespace keras_sparse
