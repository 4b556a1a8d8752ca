// DistinctIds: the distinct ids of many lists, and their occurrences.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_DISTINCT_IDS_H_
#define KERAS_SPARSE_OPS_CORE_IDS_DISTINCT_IDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/ids/id_grouper.h"
#include "ops/core/ids/id_partition.h"

namespace keras_sparse {

// A list's result has one entry for each distinct id. If the list's `max_entries` allows more, an
// id has as many consecutive entries as occurrences, up to `max_entries`. Receivers can then count
// occurrences up to that number.
//
// Works part by part, with equal ids in the same part: needs no lock and no atomic, and the order
// does not depend on the threads.
class DistinctIds {
 public:
  // Some of a list's distinct ids; their entries start with number `first_entry`.
  struct Part {
    size_t list;
    int64_t index;  // of the list's parts
    int64_t first_entry;
    int64_t max_entries;  // per id
    IdGrouper groups;

    int64_t num_entries(int64_t u) const {
      return std::min(max_entries, groups.num_occurrences(u));
    }
    int64_t num_entries() const;
  };

  // The lists must outlive the object.
  DistinctIds(const std::vector<IdList>& lists, Executor* executor);

  int64_t num_entries(size_t list) const { return num_entries_[list]; }

  // Calls body(part) for every part, on the executor's threads.
  void ForEachPart(Executor* executor, const std::function<void(const Part&)>& body) const;

 private:
  std::vector<IdPartition> partitions_;
  std::vector<Part> parts_;
  std::vector<int64_t> num_entries_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_DISTINCT_IDS_H_
