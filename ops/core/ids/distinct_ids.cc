#include "ops/core/ids/distinct_ids.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerPart = 80000;

}  // namespace

DistinctIds::DistinctIds(const std::vector<IdList>& lists, Executor* executor)
    : partitions_(PartitionIds(lists, executor)), num_unique_(lists.size()) {
  for (size_t l = 0; l < lists.size(); ++l) {
    for (int64_t p = 0; p < partitions_[l].num_parts(); ++p) {
      parts_.push_back({l, p, 0, IdGrouper()});
    }
  }
  executor->ParallelFor(static_cast<int64_t>(parts_.size()), kNanosecondsPerPart,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            Part& part = parts_[static_cast<size_t>(i)];
                            const IdPartition& ids = partitions_[part.list];
                            part.groups.Group(ids.ids(part.index), ids.positions(part.index),
                                              ids.num_ids(part.index));
                          }
                        });
  for (Part& part : parts_) {
    part.first_unique = num_unique_[part.list];
    num_unique_[part.list] += part.groups.num_unique();
  }
}

void DistinctIds::ForEachPart(Executor* executor,
                              const std::function<void(const Part&)>& body) const {
  executor->ParallelFor(static_cast<int64_t>(parts_.size()), kNanosecondsPerPart,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i)
                            body(parts_[static_cast<size_t>(i)]);
                        });
}

}  // namespace keras_sparse
