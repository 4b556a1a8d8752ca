// The distinct ids of many lists, and where each of them occurs.
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

// What is made of a list has an entry for each distinct id, or, where its `max_entries` says so, as
// many entries of an id as it occurs, but no more than these, one behind the other. Who gets the
// entries can then tell how often an id came, up to that number.
//
// Found part by part, where equal ids are in the same part: no lock, no atomic, and an order that
// does not depend on the threads.
class DistinctIds {
 public:
  // Some of a list's distinct ids: those whose entries are from number `first_entry` on.
  struct Part {
    size_t list;
    int64_t index;  // of the list's parts
    int64_t first_entry;
    int64_t max_entries;  // of an id
    IdGrouper groups;

    int64_t num_entries(int64_t u) const {
      return std::min(max_entries, groups.num_occurrences(u));
    }
    int64_t num_entries() const;
  };

  // The lists must outlive this.
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
