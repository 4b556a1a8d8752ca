#include <map>

#include "ops/core/optimizer/update_launch.h"

namespace keras_sparse::cuda_impl {
namespace {

std::map<std::string, UpdateLauncher>& Launchers() {
  static auto* launchers = new std::map<std::string, UpdateLauncher>;
  return *launchers;
}

}  // namespace

bool RegisterUpdateLauncher(const std::string& rule, UpdateLauncher launcher) {
  return Launchers().emplace(rule, launcher).second;
}

Status FindUpdateLauncher(const std::string& rule, UpdateLauncher* launcher) {
  const auto found = Launchers().find(rule);
  if (found == Launchers().end()) {
    return Status(StatusCode::kUnimplemented,
                  "a table in a GPU's memory needs a rule that has a kernel; keep it in the CPU's "
                  "memory. Received: rule='" +
                      rule + "'");
  }
  *launcher = found->second;
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
