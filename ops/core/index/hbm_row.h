// Numbers of rows in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_INDEX_HBM_ROW_H_
#define KERAS_SPARSE_OPS_CORE_INDEX_HBM_ROW_H_

#include <cstdint>

namespace keras_sparse {

// No row has this number.
constexpr uint32_t kNoHbmRow = 0xFFFFFFFFu;

// Maximum number of rows of a table: numbers slightly above the last row also fit 32 bits.
constexpr int64_t kMostHbmRows = (int64_t{1} << 32) - 2048;

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_INDEX_HBM_ROW_H_
