// Registry: factories by name, of filters, policies, rules and stores.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_REGISTRY_H_
#define KERAS_SPARSE_OPS_CORE_BASE_REGISTRY_H_

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"

namespace keras_sparse {

// Each factory registers from its own file, by a static object that nothing refers to. A registry
// is created on first use, because static objects are created in unspecified order, and is never
// destroyed.
//
// Thread safety: all methods may overlap. A loaded module may register its store while tables are
// created.
template <typename Factory>
class Registry {
 public:
  //   what       the kind, for messages, such as "an eviction policy"
  //   constants  likewise, such as "the constants of policy"
  //   received   what a message says before the received name
  explicit Registry(std::string what, std::string constants = "", std::string received = "")
      : what_(std::move(what)), constants_(std::move(constants)), received_(std::move(received)) {}

  // Returns false if the name is already registered.
  bool Add(const std::string& name, Factory factory, std::vector<std::string> constant_names = {}) {
    std::sort(constant_names.begin(), constant_names.end());
    const MutexLock lock(mutex_);
    return entries_.emplace(name, Entry{factory, std::move(constant_names)}).second;
  }

  // Returns InvalidArgument if the name is not registered, or the constants differ from the
  // registered ones.
  Status Find(const std::string& name, Factory* factory,
              const std::map<std::string, double>& constants = {}) const {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end()) {
      return InvalidArgument(what_ + " must be one of " + Quoted(entries_) +
                             ". Received: " + received_ + "'" + name + "'");
    }
    const auto& names = found->second.constant_names;
    const auto is_same = [](const auto& given, const std::string& known) {
      return given.first == known;
    };
    if (!std::equal(constants.begin(), constants.end(), names.begin(), names.end(), is_same)) {
      return InvalidArgument(constants_ + " '" + name + "' must be " + Quoted(names) +
                             ". Received: " + Quoted(constants));
    }
    *factory = found->second.factory;
    return Status::Ok();
  }

 private:
  struct Entry {
    Factory factory;
    std::vector<std::string> constant_names;  // sorted
  };

  static std::string NameOf(const std::string& name) { return name; }
  template <typename Pair>
  static std::string NameOf(const Pair& pair) {
    return pair.first;
  }

  // Lists the names of a list, or of a map.
  template <typename Names>
  static std::string Quoted(const Names& names) {
    std::string list;
    for (const auto& each : names) list += (list.empty() ? "'" : ", '") + NameOf(each) + "'";
    return "(" + list + ")";
  }

  const std::string what_;
  const std::string constants_;
  const std::string received_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_REGISTRY_H_
