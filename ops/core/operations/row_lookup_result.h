// The rows of an op's ids in a GPU's memory, and what has been seen of the ids.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_LOOKUP_RESULT_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_LOOKUP_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/device/device_array.h"
#include "ops/core/ids/bags.h"
#include "ops/core/ids/cached_row_indices.h"
#include "ops/core/ids/id_checks.h"
#include "ops/core/ids/missing_keys.h"
#include "ops/core/operations/find_rows.h"
#include "ops/core/table/table_state.h"

namespace keras_sparse::cuda_impl {

// The ids of an op that are for one table.
struct DeviceIds {
  const TableState* state;
  const int64_t* ids;  // (num_ids) in the GPU's memory
  int64_t num_ids;
};

// An id that has no row in the GPU's memory, and where it came.
struct MissingId {
  int64_t place;  // among the ids of all lists that it is one of
  int64_t id;
};

// The ids without a row of some lists, on their way to the CPU.
class CollectedIds {
 public:
  // As they came, with repeats: a vector a list. Waits for the device, which needs no lock.
  Status Read(std::vector<std::vector<int64_t>>* ids) const;

 private:
  friend class RowLookupResult;

  std::vector<int64_t> ends_;  // of each list's places
  DeviceArray<unsigned long long> number_;
  DeviceArray<MissingId> missing_;
};

// Distinct ids that have no row in the GPU's memory, in the order in which they first came.
struct MissingIds {
  std::vector<int64_t> ids;
  std::vector<int64_t> counts;  // how often each came
};

class RowLookupResult {
 public:
  // Gives the device the work to find the rows of all ids. ResourceExhausted if rows of a table
  // wait for room in its memory. REQUIRES: all tables are in this device's memory
  static Status Find(const std::vector<DeviceIds>& lists, Device* device, RowLookupResult* found);

  // The same for an update, which takes what a lookup of its ids has kept, and leaves it there.
  static Status FindUnlessKept(const std::vector<DeviceIds>& lists, Device* device,
                               RowLookupResult* found);
  // Gives the device the work to check the bags of each list, but for those that the lookup has
  // checked.
  Status CheckBagsUnlessKept(const std::vector<Bags>& bags);

  // Keeps what was found of a list for an update of it.
  //   checks  that Check has given
  //   owner   see CachedRowIndices
  void Keep(size_t list, const Bags& bags, const IdChecks& checks,
            std::shared_ptr<const void> owner) const;

  // Of one of the lists.
  const HbmTable& table(size_t list) const { return requests_[list].table; }
  const uint32_t* rows(size_t list) const { return requests_[list].rows; }

  // What kernels have seen so far. Waits for the device, unless a lookup has seen all of it. The
  // error is that of the first list that has one.
  Status Check(std::vector<IdChecks>* checks) const;

  // The ids of each list that have no row, in the GPU's memory.
  //   checks  that Check has given
  Status FindMissing(const std::vector<IdChecks>& checks, std::vector<MissingKeys>* missing) const;
  // Gives the device the work to collect the ids without a row of some of the lists.
  Status CollectMissing(const std::vector<size_t>& lists, CollectedIds* missing) const;
  // The same, and waits for it.
  Status ReadMissing(const std::vector<size_t>& lists, std::vector<MissingIds>* missing) const;

  const uint32_t* any_refused() const { return any_refused_.data(); }

 private:
  //   kept  of each list, without an owner where its rows are to be found
  static Status Find(const std::vector<DeviceIds>& lists, std::vector<CachedRowIndices> kept,
                     Device* device, RowLookupResult* found);
  bool IsKept(size_t list) const { return kept_[list].ids_owner != nullptr; }

  Device* device_ = nullptr;
  std::vector<DeviceIds> lists_;
  std::vector<CachedRowIndices> kept_;  // of each list, as Find has them
  std::vector<FindRequest> requests_;
  std::shared_ptr<const DeviceArray<uint32_t>> rows_;  // of the others
  bool has_to_wait_ = false;                           // to know the checks
  DeviceArray<IdChecks> checks_;
  DeviceArray<uint32_t> any_refused_;
};

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_ROW_LOOKUP_RESULT_H_
