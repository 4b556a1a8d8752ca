// CRC-32C, the checksum of data on disk.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_CRC32C_H_
#define KERAS_SPARSE_OPS_CORE_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace keras_sparse {

// Returns the checksum of `bytes` bytes that follow bytes with checksum `before` (0 for none).
// Castagnoli's polynomial, for which processors have an instruction.
uint32_t Crc32c(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_BASE_CRC32C_H_
