// CRC-32C, the checksum of what lies on disk.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_CRC32C_H_
#define KERAS_SPARSE_OPS_CORE_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace keras_sparse {

// Of `bytes` bytes that follow those whose checksum is `before` (0 for none). Castagnoli's
// polynomial, for which processors have an instruction.
uint32_t Crc32c(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_CRC32C_H_
