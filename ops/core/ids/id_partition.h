// PartitionIds: divides the ids of an op into parts by key, so that one thread can process each
// part.
#ifndef KERAS_SPARSE_OPS_CORE_IDS_ID_PARTITION_H_
#define KERAS_SPARSE_OPS_CORE_IDS_ID_PARTITION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/executor.h"

namespace keras_sparse {

// The ids of one table in an op.
struct IdList {
  const int64_t* ids;
  int64_t num_ids;         // below 2^32
  int max_partition_bits;  // the finest partition that the table allows
  // (num_ids) the name of each id's occurrence; null means its position, 0, 1, 2, ...
  const uint32_t* names = nullptr;
  int64_t max_entries = 1;  // see DistinctIds
};

// Equal ids are in the same part, and ids keep their order within a part: results computed part by
// part do not depend on the number of threads or parts.
class IdPartition {
 public:
  int64_t num_parts() const { return static_cast<int64_t>(begin_.size()) - 1; }
  int64_t num_ids(int64_t part) const { return End(part) - Begin(part); }

  //   ids        (num_ids(part))
  //   positions  (num_ids(part)) the position of each id in the list, or its name if it has one;
  //              null means 0, 1, 2, ...
  const int64_t* ids(int64_t part) const { return ids_ + Begin(part); }
  const uint32_t* positions(int64_t part) const {
    return positions_ == nullptr ? nullptr : positions_ + Begin(part);
  }

 private:
  friend std::vector<IdPartition> PartitionIds(const std::vector<IdList>& lists,
                                               Executor* executor);

  int64_t Begin(int64_t part) const { return begin_[static_cast<size_t>(part)]; }
  int64_t End(int64_t part) const { return begin_[static_cast<size_t>(part) + 1]; }

  std::vector<int64_t> begin_;  // (num_parts + 1)
  const int64_t* ids_ = nullptr;
  std::unique_ptr<int64_t[]> owned_ids_;  // null if there is one part, which is the list itself
  const uint32_t* positions_ = nullptr;
  std::unique_ptr<uint32_t[]> owned_positions_;
};

// Returns one partition per list, by a counting sort on the top bits of the key's hash, for all
// lists in parallel. The lists must outlive the partitions.
std::vector<IdPartition> PartitionIds(const std::vector<IdList>& lists, Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_IDS_ID_PARTITION_H_
