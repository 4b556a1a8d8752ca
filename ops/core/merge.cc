#include "ops/core/merge.h"

#include <algorithm>
#include <utility>

#include "ops/core/gradient_source.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerPart = 80000;
constexpr int kMaxPartBits = 16;

}  // namespace

GradientMerger::GradientMerger() = default;
GradientMerger::~GradientMerger() = default;

Status GradientMerger::Create(const std::vector<OutputGradient>& gradients, Executor* executor,
                              std::unique_ptr<GradientMerger>* merger) {
  auto result = std::make_unique<GradientMerger>();
  result->gradients_ = gradients;
  result->num_unique_.resize(gradients.size());
  std::vector<IdList> lists;
  for (const OutputGradient& gradient : gradients) {
    KERAS_SPARSE_RETURN_IF_ERROR(gradient.bags.Check());
    lists.push_back({gradient.ids, gradient.bags.num_ids, kMaxPartBits});
    result->sources_.emplace_back(gradient, executor);
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
  executor->ParallelFor(static_cast<int64_t>(parts_.size()), kNanosecondsPerPart,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            const Part& part = parts_[static_cast<size_t>(i)];
                            const OutputGradient& gradient = gradients_[part.gradient];
                            const GradientSource& source = sources_[part.gradient];
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
