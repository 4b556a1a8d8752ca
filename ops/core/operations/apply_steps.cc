#include "ops/core/operations/apply_steps.h"

#include <algorithm>
#include <string>

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerFinish = 10000;

}  // namespace

std::vector<EmbeddingTable*> TablesOf(const std::vector<ApplyRequest>& requests) {
  std::vector<EmbeddingTable*> tables;
  tables.reserve(requests.size());
  for (const ApplyRequest& request : requests) tables.push_back(request.table);
  return tables;
}

Status CheckGradients(const ApplyRequest& request) {
  const std::vector<OutputGradient>& gradients = request.gradients;
  const bool are_alike =
      !gradients.empty() &&
      std::all_of(gradients.begin(), gradients.end(), [&](const OutputGradient& each) {
        return each.dim == gradients[0].dim && each.grads.type == gradients[0].grads.type;
      });
  if (are_alike) return Status::Ok();
  return InvalidArgument("the gradients of table '" + request.table->name() +
                         "' in a step must have one width and dtype");
}

Status CheckSteps(const std::vector<ApplyRequest>& requests, const WriteLocks& locks) {
  if (locks.has_repeats()) {
    return InvalidArgument(
        "a step must name each table once, with the gradients of all its lookups side by side");
  }
  for (size_t r = 0; r < requests.size(); ++r) {
    const TableState& state = locks[r];
    const std::string& name = state.options.name;
    if (state.rule_state.generation() == 0) {
      return FailedPrecondition("table '" + name +
                                "' must be given an update rule before it is updated: build an "
                                "optimizer of keras_sparse on it");
    }
    if (requests[r].rule_generation != state.rule_state.generation()) {
      return FailedPrecondition("table '" + name +
                                "' must keep the slots of the optimizer that updates it, but "
                                "another one was built on it since and gave it slots of its own. "
                                "Use that one, or make a new optimizer. Received: an update for an "
                                "earlier layout than that of rule '" +
                                state.rule().name() + "'");
    }
    const Status numbers = state.rule().CheckNumbers(requests[r].numbers);
    if (!numbers.ok()) {
      return Status(numbers.code(), "table '" + name + "': " + numbers.message());
    }
  }
  return Status::Ok();
}

Status BeginChanges(const std::vector<ApplyRequest>& requests, const WriteLocks& locks,
                    Executor* executor) {
  for (size_t r = 0; r < requests.size(); ++r) {
    locks[r].rule_state.EndRestoring();
    KERAS_SPARSE_RETURN_IF_ERROR(locks[r].BeginChange(executor));
  }
  return Status::Ok();
}

std::vector<int64_t> VersionsOf(const std::vector<ApplyRequest>& requests,
                                const WriteLocks& locks) {
  std::vector<int64_t> versions;
  versions.reserve(requests.size());
  for (size_t r = 0; r < requests.size(); ++r) versions.push_back(locks[r].version);
  return versions;
}

void BeginSteps(const std::vector<ApplyRequest>& requests, const WriteLocks& locks,
                const std::vector<int64_t>& versions) {
  for (size_t r = 0; r < requests.size(); ++r) {
    TableState& state = locks[r];
    state.rule_state.BeginStep(requests[r].numbers);
    state.tiers.BeginUpdate();
    state.gate.BeginStep();
    state.CountChangeSince(versions[r]);
  }
}

void FinishSteps(const std::vector<ApplyRequest>& requests, const WriteLocks& locks,
                 Executor* executor) {
  executor->ParallelFor(static_cast<int64_t>(requests.size()), kNanosecondsPerFinish,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t r = begin; r < end; ++r) {
                            locks[static_cast<size_t>(r)].rule_state.FinishStep();
                          }
                        });
}

}  // namespace keras_sparse
