#include "ops/core/eviction/eviction_policy.h"

#include <algorithm>
#include <utility>

namespace keras_sparse {
namespace {

struct Entry {
  std::vector<std::string> constant_names;
  EvictionPolicy::Factory factory;
};

std::map<std::string, Entry>& Registry() {
  static auto* registry = new std::map<std::string, Entry>();
  return *registry;
}

std::string Quoted(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "'" : ", '") + name + "'";
  return "(" + list + ")";
}

}  // namespace

bool EvictionPolicy::Register(const std::string& name, std::vector<std::string> constant_names,
                              Factory factory) {
  std::sort(constant_names.begin(), constant_names.end());
  return Registry().emplace(name, Entry{std::move(constant_names), factory}).second;
}

Status EvictionPolicy::Create(const EvictionOptions& options,
                              std::unique_ptr<EvictionPolicy>* policy) {
  const auto entry = Registry().find(options.policy);
  if (entry == Registry().end()) {
    std::vector<std::string> names;
    for (const auto& known : Registry()) names.push_back(known.first);
    return InvalidArgument("an eviction policy must be one of " + Quoted(names) + ". Received: '" +
                           options.policy + "'");
  }
  std::vector<std::string> given;
  for (const auto& constant : options.constants) given.push_back(constant.first);
  if (given != entry->second.constant_names) {
    return InvalidArgument("the constants of policy '" + options.policy + "' must be " +
                           Quoted(entry->second.constant_names) + ". Received: " + Quoted(given));
  }
  return entry->second.factory(options, policy);
}

}  // namespace keras_sparse
