#include "ops/core/ids/distinct_ids.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerDistinctPart = 80000;

}  // namespace

int64_t DistinctIds::Part::num_entries() const {
  const int64_t num_unique = groups.num_unique();
  if (max_entries == 1) return num_unique;
  int64_t sum = 0;
  for (int64_t u = 0; u < num_unique; ++u) sum += num_entries(u);
  return sum;
}

DistinctIds::DistinctIds(const std::vector<IdList>& lists, Executor* executor)
    : partitions_(PartitionIds(lists, executor)), num_entries_(lists.size()) {
  for (size_t l = 0; l < lists.size(); ++l) {
    for (int64_t p = 0; p < partitions_[l].num_parts(); ++p) {
      parts_.push_back({l, p, 0, lists[l].max_entries, IdGrouper()});
    }
  }
  executor->ParallelFor(static_cast<int64_t>(parts_.size()), kNanosecondsPerDistinctPart,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            Part& part = parts_[static_cast<size_t>(i)];
                            const IdPartition& ids = partitions_[part.list];
                            part.groups.Group(ids.ids(part.index), ids.positions(part.index),
                                              ids.num_ids(part.index));
                          }
                        });
  for (Part& part : parts_) {
    part.first_entry = num_entries_[part.list];
    num_entries_[part.list] += part.num_entries();
  }
}

void DistinctIds::ForEachPart(Executor* executor,
                              const std::function<void(const Part&)>& body) const {
  executor->ParallelFor(static_cast<int64_t>(parts_.size()), kNanosecondsPerDistinctPart,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i)
                            body(parts_[static_cast<size_t>(i)]);
                        });
}

}  // namespace keras_sparse
