// Lookups of whole batches: rows that ranks send each other without having been asked for them.
#ifndef KERAS_SPARSE_OPS_CORE_EXCHANGE_WHOLE_BATCHES_H_
#define KERAS_SPARSE_OPS_CORE_EXCHANGE_WHOLE_BATCHES_H_

#include <cstdint>
#include <vector>

#include "ops/core/base/status.h"
#include "ops/core/exchange/exchange_layout.h"
#include "ops/core/exchange/message_format.h"
#include "ops/core/math/float_type.h"

namespace keras_sparse {

// A rank looks up all samples of the inputs whose tables it has, and replies to rank r with the
// rows of the r-th part of the samples. The layout has a table for each input.

// What a rank refuses of its own batch, and sends in the place of rows. InvalidArgument unless all
// inputs have as many samples; ResourceExhausted for more words than a rank may send or get.
//   num_samples  one a part of the rank
Status CheckOwnBatch(const ExchangeLayout& layout, const std::vector<int64_t>& num_samples,
                     FloatType wire_type);

// Says how many samples are each rank's.
//   blocks  (num_ranks), each with the size of its rank's batch
// What CheckBlocks says; InvalidArgument that begins with `[rank r of n]` for sizes that differ, or
// that the number of ranks does not divide. A rank without parts has no batch.
Status CheckWholeBatches(const ExchangeLayout& layout, const std::vector<Block>& blocks,
                         int64_t* num_own_samples);

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EXCHANGE_WHOLE_BATCHES_H_
