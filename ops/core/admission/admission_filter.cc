#include "ops/core/admission/admission_filter.h"

#include <utility>

#include "ops/core/base/registry.h"

namespace keras_sparse {
namespace {

Registry<AdmissionFilter::Factory>& Filters() {
  static auto* filters =
      new Registry<AdmissionFilter::Factory>("an admission filter", "the constants of filter");
  return *filters;
}

}  // namespace

bool AdmissionFilter::Register(const std::string& name, std::vector<std::string> constant_names,
                               Factory factory) {
  return Filters().Add(name, factory, std::move(constant_names));
}

Status AdmissionFilter::Create(const FilterOptions& options,
                               std::unique_ptr<AdmissionFilter>* filter) {
  Factory factory = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(Filters().Find(options.filter, &factory, options.constants));
  return factory(options, filter);
}

}  // namespace keras_sparse
