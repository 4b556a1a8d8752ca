// AllocateBytes: memory for many records at once.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_BYTES_H_
#define KERAS_SPARSE_OPS_CORE_BASE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "ops/core/base/status.h"

namespace keras_sparse {

// Allocates bytes without initializing them: writing zeros first, as make_unique does, takes as
// long as copying the content. Returns ResourceExhausted if there is no memory.
inline Status AllocateBytes(int64_t num_bytes, std::unique_ptr<char[]>* bytes) {
  bytes->reset(new (std::nothrow) char[static_cast<size_t>(num_bytes)]);
  if (*bytes != nullptr) return Status::Ok();
  return ResourceExhausted("no memory is left for records of " + std::to_string(num_bytes) +
                           " bytes; give the process more, or tables a smaller first tier");
}

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_BYTES_H_
