#include "ops/core/eviction/eviction_policy.h"

#include <utility>

#include "ops/core/base/registry.h"

namespace keras_sparse {
namespace {

Registry<EvictionPolicy::Factory>& Policies() {
  static auto* policies =
      new Registry<EvictionPolicy::Factory>("an eviction policy", "the constants of policy");
  return *policies;
}

}  // namespace

bool EvictionPolicy::Register(const std::string& name, std::vector<std::string> constant_names,
                              Factory factory) {
  return Policies().Add(name, factory, std::move(constant_names));
}

Status EvictionPolicy::Create(const EvictionOptions& options,
                              std::unique_ptr<EvictionPolicy>* policy) {
  Factory factory = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(Policies().Find(options.policy, &factory, options.constants));
  return factory(options, policy);
}

}  // namespace keras_sparse
