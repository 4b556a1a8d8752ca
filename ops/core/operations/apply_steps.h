// Helpers of an update that do not depend on where its rows are: the steps of the tables' rules.
#ifndef KERAS_SPARSE_OPS_CORE_OPERATIONS_APPLY_STEPS_H_
#define KERAS_SPARSE_OPS_CORE_OPERATIONS_APPLY_STEPS_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/executor.h"
#include "ops/core/base/status.h"
#include "ops/core/operations/apply.h"
#include "ops/core/table/table_locks.h"

namespace keras_sparse {

// Returns the requests' tables. In the functions below, `locks` are of these tables.
std::vector<EmbeddingTable*> TablesOf(const std::vector<ApplyRequest>& requests);

// Returns InvalidArgument unless the gradients of a request can be those of one update.
Status CheckGradients(const ApplyRequest& request);

// Returns OK if the steps can be made, apart from their ids.
Status CheckSteps(const std::vector<ApplyRequest>& requests, const WriteLocks& locks);
// Calls TableState::BeginChange of each table before a step.
Status BeginChanges(const std::vector<ApplyRequest>& requests, const WriteLocks& locks,
                    Executor* executor);
// Returns the versions of the tables.
std::vector<int64_t> VersionsOf(const std::vector<ApplyRequest>& requests, const WriteLocks& locks);
// Begins the step, which is counted from here on, whatever happens. Changes since `versions` that
// made room for the step become one change with it, because lookups ahead count staleness in
// updates.
void BeginSteps(const std::vector<ApplyRequest>& requests, const WriteLocks& locks,
                const std::vector<int64_t>& versions);
void FinishSteps(const std::vector<ApplyRequest>& requests, const WriteLocks& locks,
                 Executor* executor);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPERATIONS_APPLY_STEPS_H_
