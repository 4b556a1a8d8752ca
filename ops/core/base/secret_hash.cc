#include "ops/core/base/secret_hash.h"

#include <random>

namespace keras_sparse {
namespace {

uint64_t Draw(std::random_device* device) {
  return (static_cast<uint64_t>((*device)()) << 32) | (*device)();
}

HashSecret MakeSecret() {
  std::random_device device;  // the system's
  const uint64_t added = Draw(&device);
  return {added, Draw(&device) | 1};
}

}  // namespace

const HashSecret kHashSecret = MakeSecret();

}  // namespace keras_sparse
