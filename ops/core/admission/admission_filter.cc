#include "ops/core/admission/admission_filter.h"

#include <algorithm>
#include <utility>

namespace keras_sparse {
namespace {

struct Entry {
  std::vector<std::string> constant_names;
  AdmissionFilter::Factory factory;
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

bool AdmissionFilter::Register(const std::string& name, std::vector<std::string> constant_names,
                               Factory factory) {
  std::sort(constant_names.begin(), constant_names.end());
  return Registry().emplace(name, Entry{std::move(constant_names), factory}).second;
}

Status AdmissionFilter::Create(const FilterOptions& options,
                               std::unique_ptr<AdmissionFilter>* filter) {
  const auto entry = Registry().find(options.filter);
  if (entry == Registry().end()) {
    std::vector<std::string> names;
    for (const auto& known : Registry()) names.push_back(known.first);
    return InvalidArgument("an admission filter must be one of " + Quoted(names) + ". Received: '" +
                           options.filter + "'");
  }
  std::vector<std::string> given;
  for (const auto& constant : options.constants) given.push_back(constant.first);
  if (given != entry->second.constant_names) {
    return InvalidArgument("the constants of filter '" + options.filter + "' must be " +
                           Quoted(entry->second.constant_names) + ". Received: " + Quoted(given));
  }
  return entry->second.factory(options, filter);
}

}  // namespace keras_sparse
