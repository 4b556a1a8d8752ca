#include "ops/core/gradients/gradient_merger.h"

#include <algorithm>
#include <utility>

#include "ops/core/gradients/gradient_source.h"

namespace keras_sparse {
namespace {

constexpr int kMaxMergeBits = 16;

}  // namespace

GradientMerger::GradientMerger() = default;
GradientMerger::~GradientMerger() = default;

Status GradientMerger::Create(const std::vector<OutputGradient>& gradients, Executor* executor,
                              std::unique_ptr<GradientMerger>* merger) {
  auto result = std::make_unique<GradientMerger>();
  result->gradients_ = gradients;
  std::vector<IdList> lists;
  lists.reserve(gradients.size());
  for (const OutputGradient& gradient : gradients) {
    KERAS_SPARSE_RETURN_IF_ERROR(gradient.bags.Check());
  }
  result->sources_ = GradientSource::Make(gradients, executor);
  for (size_t i = 0; i < gradients.size(); ++i) {
    lists.push_back({gradients[i].ids, gradients[i].bags.num_ids, kMaxMergeBits,
                     result->sources_[i].names(), gradients[i].max_entries});
  }
  result->ids_ = std::make_unique<DistinctIds>(lists, executor);
  *merger = std::move(result);
  return Status::Ok();
}

int64_t GradientMerger::num_entries(size_t gradient) const { return ids_->num_entries(gradient); }

void GradientMerger::Write(const std::vector<Result>& results, Executor* executor) const {
  ids_->ForEachPart(executor, [&](const DistinctIds::Part& part) {
    const OutputGradient& gradient = gradients_[part.list];
    const GradientSource& source = sources_[part.list];
    const Result& result = results[part.list];
    int64_t* ids = result.ids + part.first_entry;
    float* values = result.values + part.first_entry * gradient.dim;
    for (int64_t u = 0; u < part.groups.num_unique(); ++u) {
      source.Sum(part.groups.occurrences(u), part.groups.num_occurrences(u), values);
      const int64_t n = part.num_entries(u);
      std::fill_n(values + gradient.dim, (n - 1) * gradient.dim, kEmptySum);
      ids = std::fill_n(ids, n, part.groups.unique_ids()[u]);
      values += n * gradient.dim;
    }
  });
}

}  // namespace keras_sparse
