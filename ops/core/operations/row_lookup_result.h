// RowLookupResult: the rows of an op's ids in a GPU's memory, and the checks of the ids.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_LOOKUP_RESULT_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_LOOKUP_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/arrays_on_device.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/ids/bags.h"
#include "ops/core/ids/cached_row_indices.h"
#include "ops/core/ids/id_checks.h"
#include "ops/core/ids/missing_keys.h"
#include "ops/core/operations/check_ids.h"
#include "ops/core/operations/find_rows.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse::cuda_impl {

// Copies the ids behind those that are there. Waits for the device.
inline Status AppendIds(const TableIds& list, Device* device, std::vector<int64_t>* ids) {
  const size_t before = ids->size();
  ids->resize(before + static_cast<size_t>(list.num_ids));
  return device->CopyToHost(list.ids, list.num_ids * static_cast<int64_t>(sizeof(int64_t)),
                            ids->data() + before);
}

// An id without a row in the GPU's memory, and its position.
struct MissingId {
  int64_t place;  // position among the ids of all lists searched
  int64_t id;
};

// The ids of some lists without a row, to be copied to the CPU.
class CollectedIds {
 public:
  // Returns the ids in order, with repeats, one vector per list. Waits for the device, which needs
  // no lock.
  Status Read(std::vector<std::vector<int64_t>>* ids) const;

 private:
  friend class RowLookupResult;

  std::vector<int64_t> ends_;  // end of each list's positions
  DeviceArray<unsigned long long> number_;
  DeviceArray<MissingId> missing_;
};

// Distinct ids without a row in the GPU's memory, ordered by first occurrence.
struct MissingIds {
  std::vector<int64_t> ids;
  std::vector<int64_t> counts;  // occurrences of each id
};

class RowLookupResult {
 public:
  // Enqueues work on the device to find the rows of all ids. Returns ResourceExhausted if rows of a
  // table wait for room in its memory.
  // REQUIRES: all tables are in this device's memory
  static Status Find(const std::vector<TableIds>& lists, Device* device, RowLookupResult* found);

  // As Find, but uses the row indices that lookups of these ids have cached, and leaves them there.
  static Status FindUnlessKept(const std::vector<TableIds>& lists, Device* device,
                               RowLookupResult* found);
  // Enqueues work on the device to check the bags of each list, except lists that the lookup has
  // checked.
  Status CheckBagsUnlessKept(const std::vector<Bags>& bags);

  // Enqueues a copy of what the kernels enqueued so far will find, for Keep.
  Status CopyChecks(std::shared_ptr<const HostCopy>* checks) const;
  // Caches the row indices of `list` for the following update.
  //   kept  all but the ids, the bags' splits and the rows
  void Keep(size_t list, const Bags& bags, CachedRowIndices kept) const;

  // Both refer to one of the lists.
  const HbmTable& table(size_t list) const { return requests_[list].table; }
  const uint32_t* rows(size_t list) const { return requests_[list].rows; }

  // Returns what the kernels have found so far. Waits for the device, or for the lookup alone if it
  // has found everything. Returns the error of the first list that has one.
  Status Check(std::vector<IdChecks>* checks) const;

  // Finds the ids of each table without a row, in the GPU's memory. Lists of one table follow each
  // other.
  //   checks  returned by Check
  Status FindMissing(const std::vector<IdChecks>& checks, std::vector<MissingKeys>* missing) const;
  // Enqueues work on the device to collect the ids without a row of some of the lists.
  Status CollectMissing(const std::vector<size_t>& lists, CollectedIds* missing) const;
  // As CollectMissing, and waits for the device.
  Status ReadMissing(const std::vector<size_t>& lists, std::vector<MissingIds>* missing) const;

  const uint32_t* any_refused() const { return any_refused_; }

 private:
  //   kept  one per list; without an owner if the rows must be found
  static Status Find(const std::vector<TableIds>& lists, std::vector<CachedRowIndices> kept,
                     Device* device, RowLookupResult* found);
  bool IsKept(size_t list) const { return kept_[list].has_rows(); }
  int64_t checks_bytes() const { return static_cast<int64_t>(lists_.size() * sizeof(IdChecks)); }

  Device* device_ = nullptr;
  std::vector<TableIds> lists_;
  std::vector<CachedRowIndices> kept_;  // one per list, as in Find
  std::vector<FindRequest> requests_;
  std::shared_ptr<const DeviceArray<uint32_t>> rows_;  // of lists that are not cached
  bool has_to_wait_ = false;                           // for the device, to read the checks
  ArraysOnDevice arrays_;                              // the two that follow
  IdChecks* checks_ = nullptr;
  uint32_t* any_refused_ = nullptr;
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_LOOKUP_RESULT_H_
