// What a training step, and what comes before it, does to tables in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_DEVICE_OPERATIONS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_DEVICE_OPERATIONS_H_

#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/ids/bags_hash.h"
#include "ops/core/operations/apply.h"
#include "ops/core/operations/lookup.h"
#include "ops/core/operations/prefetch_records.h"

namespace keras_sparse {

// Each is that of its name in lookup.h, apply.h and prefetch_records.h, which calls it for tables
// in a GPU's memory: all of a call are in that of one GPU, as is what lookups, their gradient and
// updates read and write for them. What is named `ahead`, `from_host` or `to_host` has its ids, and
// the last its rows, in the CPU's. The .cu files fill it in; in a build without CUDA there is no
// such table.
struct DeviceOperations {
  Status (*lookup_rows)(const std::vector<LookupRequest>& requests) = nullptr;
  Status (*lookup_rows_from_host)(const std::vector<LookupRequest>& requests) = nullptr;
  Status (*lookup_rows_to_host)(const std::vector<LookupRequest>& requests) = nullptr;
  Status (*lookup_weights_gradient)(const std::vector<WeightsGradientRequest>& requests) = nullptr;
  Status (*apply_gradients)(const std::vector<ApplyRequest>& requests,
                            Executor* executor) = nullptr;
  Status (*prefetch_records)(const std::vector<PrefetchIds>& lists,
                             std::vector<StagedRecords::Hold>* holds) = nullptr;
  // Of each request's ids and bags, for which it waits.
  Status (*hash_lookup)(const std::vector<LookupRequest>& lookup,
                        std::vector<BagsHash>* hashes) = nullptr;

  static DeviceOperations& Get();
};

// Whether a table is in a GPU's memory.
inline bool IsOnDevice(const EmbeddingTable& table) {
  return table.options().storage.device != nullptr;
}

// Whether the tables of an op are.
template <typename Request>
bool AreOnDevice(const std::vector<Request>& requests) {
  return !requests.empty() && IsOnDevice(*requests[0].table);
}

// The device of such an op. InvalidArgument if it has tables elsewhere.
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
