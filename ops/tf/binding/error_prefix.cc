#include "ops/tf/binding/error_prefix.h"

#include "ops/core/base/mutex.h"

namespace {

keras_sparse::Mutex prefix_mutex;

// Never destroyed, because a thread may fail while the process ends.
std::string& Prefix() REQUIRES(prefix_mutex) {
  static auto* prefix = new std::string;
  return *prefix;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void keras_sparse_set_error_prefix(
    const char* prefix) {
  const keras_sparse::MutexLock lock(prefix_mutex);
  Prefix() = prefix;
}

namespace keras_sparse {

std::string WithErrorPrefix(const std::string& message) {
  // Messages from other ranks already name their rank.
  if (message.rfind("[rank ", 0) == 0) return message;
  const MutexLock lock(prefix_mutex);
  return Prefix() + message;
}

}  // namespace keras_sparse
