// Blocks of rows and gradients in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_DEVICE_BLOCKS_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_DEVICE_BLOCKS_H_

#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/device/device.h"
#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/message_format.h"

namespace keras_sparse::cuda_impl {

// Enqueues work on the device to write the header of each block: no error.
//   blocks  (num_ranks)
Status WriteHeaders(const ExchangeLayout& layout, const std::vector<Word*>& blocks, Device* device);

// Writes an error into the blocks, of StatusWords each.
Status WriteErrors(const ExchangeLayout& layout, const Status& error,
                   const std::vector<Word*>& blocks, Device* device);

// As CheckBlocks. Waits for the device: only headers, and an error, are copied to the CPU.
Status CheckBlocks(const ExchangeLayout& layout, const std::vector<Block>& blocks, Device* device);

}  // namespace keras_sparse::cuda_impl

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_DEVICE_BLOCKS_H_
