#include "ops/core/row_store.h"

#include <map>

namespace keras_sparse {
namespace {

std::map<std::string, RowStore::Factory>& Registry() {
  static auto* registry = new std::map<std::string, RowStore::Factory>();
  return *registry;
}

}  // namespace

bool RowStore::Register(const std::string& kind, Factory factory) {
  return Registry().emplace(kind, factory).second;
}

Status RowStore::Open(const StoreOptions& options, std::unique_ptr<RowStore>* store) {
  const auto entry = Registry().find(options.kind);
  if (entry != Registry().end()) return entry->second(options, store);
  std::string kinds;
  for (const auto& known : Registry()) kinds += (kinds.empty() ? "'" : ", '") + known.first + "'";
  return InvalidArgument("a lower tier must be one of (" + kinds + ") in this build. Received: '" +
                         options.kind + "'");
}

}  // namespace keras_sparse
