#include <map>

#include "ops/core/optimizer/update_launch.h"

namespace keras_sparse::cuda_impl {
namespace {

std::map<std::string, RuleKernels>& AllKernels() {
  static auto* kernels = new std::map<std::string, RuleKernels>;
  return *kernels;
}

}  // namespace

bool RegisterKernels(const std::string& rule, const RuleKernels& kernels) {
  return AllKernels().emplace(rule, kernels).second;
}

Status FindKernels(const std::string& rule, RuleKernels* kernels) {
  const auto found = AllKernels().find(rule);
  if (found == AllKernels().end()) {
    return Status(StatusCode::kUnimplemented,
                  "a table in a GPU's memory needs a rule that has a kernel; keep it in the CPU's "
                  "memory. Received: rule='" +
                      rule + "'");
  }
  *kernels = found->second;
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
