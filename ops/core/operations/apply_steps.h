// What an update does beside its rows, wherever these are: the steps of the tables' rules.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_APPLY_STEPS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_APPLY_STEPS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/operations/apply.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {

// In each of these `locks` are those of the requests' tables, as TablesOf names them.
std::vector<EmbeddingTable*> TablesOf(const std::vector<ApplyRequest>& requests);

// Whether the steps can be made, but for their ids.
Status CheckSteps(const std::vector<ApplyRequest>& requests, const WriteLocks& locks);
// TableState::BeginChange, for a step.
Status BeginChanges(const std::vector<ApplyRequest>& requests, const WriteLocks& locks,
                    Executor* executor);
// Of the tables.
std::vector<int64_t> VersionsOf(const std::vector<ApplyRequest>& requests, const WriteLocks& locks);
// From here on it is a step, whatever happens. What has made room for it since these versions is
// one change with it: to lookups ahead, which may be some updates old, it is a part of the update.
void BeginSteps(const std::vector<ApplyRequest>& requests, const WriteLocks& locks,
                const std::vector<int64_t>& versions);
void FinishSteps(const std::vector<ApplyRequest>& requests, const WriteLocks& locks,
                 Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_APPLY_STEPS_H_
