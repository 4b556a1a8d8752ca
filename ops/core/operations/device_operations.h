// DeviceOperations: training steps and lookups for tables in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_DEVICE_OPERATIONS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_DEVICE_OPERATIONS_H_

#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/ids/bags_hash.h"
#include "ops/core/operations/apply.h"
#include "ops/core/operations/check_ids.h"
#include "ops/core/operations/check_room.h"
#include "ops/core/operations/lookup.h"
#include "ops/core/operations/prefetch_records.h"

namespace keras_sparse {

// Each function implements its namesake in lookup.h, apply.h and prefetch_records.h, which call it
// for tables in a GPU's memory. All tables of a call are in the memory of one GPU, as are the
// inputs and outputs of lookups, their gradient and updates. Exceptions: `lookup_rows_from_host`,
// `lookup_rows_to_host` and `prefetch_records` take ids in host memory, and `lookup_rows_to_host`
// also writes rows to host memory. The .cu files set the pointers; a build without CUDA has no such
// tables.
struct DeviceOperations {
  Status (*lookup_rows)(const std::vector<LookupRequest>& requests) = nullptr;
  Status (*lookup_rows_from_host)(const std::vector<LookupRequest>& requests) = nullptr;
  Status (*lookup_rows_to_host)(const std::vector<LookupRequest>& requests) = nullptr;
  Status (*lookup_weights_gradient)(const std::vector<WeightsGradientRequest>& requests) = nullptr;
  // For ids in the GPU's memory. The caller has locked the tables.
  Status (*check_lookups)(const std::vector<TableIds>& lookups) = nullptr;
  Status (*apply_gradients)(const std::vector<ApplyRequest>& requests,
                            Executor* executor) = nullptr;
  // The ids of each table in a step, in host memory; none if all of its ids have rows. Returns the
  // errors of ids that CheckUpdates returns.
  Status (*read_new_ids)(const std::vector<StepIds>& tables,
                         std::vector<std::vector<int64_t>>* ids) = nullptr;
  Status (*prefetch_records)(const std::vector<PrefetchIds>& lists,
                             std::vector<StagedRecords::Hold>* holds) = nullptr;
  // Hashes each request's ids and bags. Waits for the ids.
  Status (*hash_lookup)(const std::vector<LookupRequest>& lookup,
                        std::vector<BagsHash>* hashes) = nullptr;

  static DeviceOperations& Get();
};

// Returns whether a table is in a GPU's memory.
inline bool IsOnDevice(const EmbeddingTable& table) {
  return table.options().storage.device != nullptr;
}

// Returns whether the tables of an op are in a GPU's memory.
template <typename Request>
bool AreOnDevice(const std::vector<Request>& requests) {
  return !requests.empty() && IsOnDevice(*requests[0].table);
}

// Finds the device of such an op. Returns InvalidArgument if the op also has tables elsewhere.
template <typename Request>
Status DeviceOf(const std::vector<Request>& requests, Device** device) {
  *device = requests[0].table->options().storage.device.get();
  for (const Request& request : requests) {
    if (request.table->options().storage.device.get() == *device) continue;
    return InvalidArgument("the tables of an op must all be in the memory of one GPU. Received: '" +
                           requests[0].table->name() + "', which is there, and '" +
                           request.table->name() + "', which is not");
  }
  return Status::Ok();
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_DEVICE_OPERATIONS_H_
